"""A session's tokens turn by turn: what is known, what is estimated, and the drawing of both."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal

from turnmill.contract.codec import encode_json
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext, Usage
from turnmill.contract.estimate import estimate_tokens, without_images
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill.contract.render import system_message
from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn
from turnmill_cli.visualize.messages import clock

# --- what each turn weighs ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """A number of tokens at a turn: of the turn itself, or of the context after it."""

    seq: int
    tokens: int
    exact: bool


def weights(trajectory: Trajectory) -> dict[int, Point]:
    """Each turn's tokens as it was pushed, by seq: counted, else estimated."""
    saved = _saved(trajectory)
    return {turn.seq: _weight(turn, saved.get(turn.seq, 0)) for turn in trajectory.turns}


def _weight(turn: TrajectoryTurn, saved: int) -> Point:
    if turn.tokens is None:
        return Point(turn.seq, estimated(turn.messages), exact=False)
    return Point(turn.seq, turn.tokens + saved, exact=True)


def _saved(trajectory: Trajectory) -> dict[int, int]:
    """By how much a turn's count fell when messages in it were shortened."""
    kept = {turn.seq for turn in trajectory.turns if turn.state == "kept"}
    found: dict[int, int] = {}
    for commit in trajectory.compactions:
        stored = commit.context
        found = {s: saved for s, saved in found.items() if s <= stored.watermark or s not in kept}
        own: dict[int, int] = {}
        for elision in stored.elisions:
            less = elision.tokens_before - elision.tokens_after
            own[elision.seq] = own.get(elision.seq, 0) + less
        found |= own
    return found


def estimated(messages: Sequence[JsonMessage]) -> int:
    """About how many tokens these messages are: 3.5 characters each, images by their size."""
    text, images = without_images(encode_json(list(messages)), FORMULAS[DEFAULT_FORMULA])
    return estimate_tokens(text.decode(errors="replace")) + images


# --- the context's tokens over its turns ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChange:
    """A change of the context that no turn made.

    Attributes:
        seq: the newest turn there was at that moment.
        version: that it committed; 0 for ``clear``, which leaves no record.
        before, after: tokens of the whole context.
        before_exact, after_exact: as recorded and counted, else estimated.
        at_ms: when; 0 when that was not recorded.
    """

    kind: Literal["compaction", "rollback", "cleared"]
    seq: int
    version: int = 0
    before: int = 0
    after: int = 0
    before_exact: bool = True
    after_exact: bool = True
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCurve:
    """A session's tokens over its turns.

    Attributes:
        points: in order; a change adds two at the same seq.
        changes: in order.
    """

    points: tuple[Point, ...]
    changes: tuple[ContextChange, ...]

    @property
    def now(self) -> Point:
        """The context as it is now, before a read cuts it to fit."""
        return self.points[-1]

    def newest(self, changes: int) -> TokenCurve:
        """The end of it, from the last but so many changes on."""
        if len(self.changes) <= changes:
            return self
        first = self.changes[-changes - 1]
        start = bisect_right([point.seq for point in self.points], first.seq) - 1
        return TokenCurve(points=self.points[start:], changes=self.changes[-changes:])

    @property
    def exact(self) -> bool:
        """Whether nothing in it is estimated."""
        return all(point.exact for point in self.points)


def token_curve(trajectory: Trajectory) -> TokenCurve:
    """The session's tokens over its turns.

    A compaction's numbers are those of its record, and of the turns pushed while it was under
    way. Between two of them the turns' own tokens add up.
    """
    walk = _Walk(trajectory)
    pending = deque(walk.places)
    for turn in trajectory.turns:
        while pending and pending[0][0] < turn.seq:
            walk.change(*pending.popleft())
        walk.turn(turn.seq)
    for place in pending:
        walk.change(*place)
    return TokenCurve(points=tuple(walk.points), changes=tuple(walk.changes))


class _Walk:
    """The points so far, and what the next one is made from."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._weight = weights(trajectory)
        self._seqs = [turn.seq for turn in trajectory.turns]
        tokens = (self._weight[seq].tokens for seq in self._seqs)
        self._sums = list(accumulate(tokens, initial=0))
        self._base = _base(trajectory, self._weight)
        self.places = _places(trajectory, self._seqs)
        starts = [*self._seqs[:1], *(seq for seq, _ in self.places[:1])]
        start = min(starts, default=1) - 1
        is_whole = self._base.exact and start == 0
        self.points = [Point(start, self._base.tokens, is_whole)]
        self.changes: list[ContextChange] = []

    def turn(self, seq: int) -> None:
        """Add a turn; after missing ones, the sum is no longer exact."""
        last, own = self.points[-1], self._weight[seq]
        exact = last.exact and own.exact and seq == last.seq + 1
        self.points.append(Point(seq, last.tokens + own.tokens, exact))

    def change(self, seq: int, commit: CommittedContext | None) -> None:
        """Add a compaction, a rollback, or, for None, a clear."""
        walked = self.points[-1]
        made = self._cleared(seq, walked) if commit is None else self._made(seq, commit, walked)
        self.changes.append(made)
        self.points.append(Point(seq, made.before, made.before_exact))
        self.points.append(Point(seq, made.after, made.after_exact))

    def _cleared(self, seq: int, walked: Point) -> ContextChange:
        return ContextChange(
            kind="cleared",
            seq=seq,
            before=walked.tokens,
            after=self._base.tokens,
            before_exact=walked.exact,
            after_exact=self._base.exact,
        )

    def _made(self, seq: int, commit: CommittedContext, walked: Point) -> ContextChange:
        record = commit.record
        is_rollback = record.strategy == "rollback"
        late = Point(seq, 0, exact=True) if is_rollback else self._since(record.last_seq, seq)
        # A rollback's record does not say what was there before it.
        told = record.tokens_before > 0
        return ContextChange(
            kind="rollback" if is_rollback else "compaction",
            seq=seq,
            version=record.version,
            before=record.tokens_before + late.tokens if told else walked.tokens,
            after=record.tokens_after + late.tokens,
            before_exact=late.exact if told else walked.exact,
            after_exact=late.exact,
            at_ms=commit.at_ms,
        )

    def _since(self, after: int, through: int) -> Point:
        """What turns in this range weigh together."""
        first, last = (bisect_right(self._seqs, seq) for seq in (after, through))
        exact = all(self._weight[seq].exact for seq in self._seqs[first:last])
        return Point(through, self._sums[max(first, last)] - self._sums[first], exact)


def _base(trajectory: Trajectory, weight: dict[int, Point]) -> Point:
    """A context without any turn: the system prompt, and the reply's opening."""
    first = trajectory.compactions[0].record if trajectory.compactions else None
    if first is not None and first.from_watermark == 0 and first.tokens_before:
        own = [weight[turn.seq] for turn in trajectory.turns if turn.seq <= first.last_seq]
        rest = first.tokens_before - sum(each.tokens for each in own)
        is_whole = len(own) == first.last_seq and all(each.exact for each in own)
        if is_whole and rest >= Usage.REPLY:
            return Point(0, rest, exact=True)
    system = trajectory.system_prompt
    about = estimated([system_message(system)]) if system else 0
    return Point(0, about + Usage.REPLY, exact=not system)


def _places(
    trajectory: Trajectory, seqs: Sequence[int]
) -> list[tuple[int, CommittedContext | None]]:
    """What changed the context and after which turn, in order; None is a ``clear``."""
    # A clock may be set back; a later turn was still admitted later.
    times = list(accumulate((turn.at_ms for turn in trajectory.turns), max))
    cleared = [turn.seq for turn in trajectory.turns if turn.state == "cleared"]
    found: list[tuple[int, CommittedContext | None]] = []
    at = watermark = 0
    for commit in trajectory.compactions:
        record = commit.record
        if _any_between(cleared, watermark, record.from_watermark):
            # Nothing but a clear moves the watermark without a record.
            at = max(at, record.from_watermark)
            found.append((at, None))
        at = max(at, _seq_then(commit, trajectory.turns, seqs, times))
        found.append((at, commit))
        watermark = record.watermark
    last_clear = max((seq for seq, commit in found if commit is None), default=0)
    if cleared and cleared[-1] > last_clear:
        found.append((max(at, cleared[-1]), None))
    return found


def _any_between(seqs: Sequence[int], after: int, through: int) -> bool:
    return bisect_right(seqs, through) > bisect_right(seqs, after)


def _seq_then(
    commit: CommittedContext,
    turns: Sequence[TrajectoryTurn],
    seqs: Sequence[int],
    times: Sequence[int],
) -> int:
    """The newest turn there was when this was committed."""
    known = bisect_right(seqs, commit.record.last_seq)
    if commit.at_ms and times and turns[0].at_ms:
        known = max(known, bisect_right(times, commit.at_ms))
    elif commit.record.strategy == "rollback":
        known += sum(1 for _ in _rolled_back(turns[known:]))
    return seqs[known - 1] if known else commit.record.last_seq


def _rolled_back(turns: Sequence[TrajectoryTurn]) -> Iterator[TrajectoryTurn]:
    for turn in turns:
        if turn.state != "rolled-back":
            return
        yield turn


# --- what became of each turn ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnOutcomes:
    """What became of a session's turns.

    Attributes:
        stored: what stands for older turns now; version 0 when nothing does.
        watermark: turns up to it are not read word for word any more, but for pinned ones.
        first: the first turn of the conversation: after the newest ``clear``.
        covered: the version that covered a turn, by seq; without what a rollback brought back.
        shortened: turns some messages of which are read shortened now.
    """

    stored: StoredContext
    watermark: int
    first: int = 1
    covered: dict[int, int] = field(default_factory=dict)
    shortened: frozenset[int] = frozenset()

    def is_read_now(self, turn: TrajectoryTurn) -> bool:
        """Whether the turn itself is part of the context now, shortened or not."""
        return turn.state == "kept" and (turn.seq > self.watermark or turn.pinned)


def turn_outcomes(trajectory: Trajectory, curve: TokenCurve) -> TurnOutcomes:
    """What became of the session's turns, by its compactions, rollbacks and clears in order."""
    seqs = [turn.seq for turn in trajectory.turns]
    commits = {commit.record.version: commit for commit in trajectory.compactions}
    covered: dict[int, int] = {}
    stored, watermark, beginning = EMPTY, 0, 1
    for change in curve.changes:
        commit = commits.get(change.version)  # type: ignore[call-overload]
        if commit is None:
            stored, watermark, beginning = EMPTY, change.seq, change.seq + 1
            continue
        stored, watermark = commit.context, commit.context.watermark
        if change.kind == "rollback":
            covered = {seq: version for seq, version in covered.items() if seq <= watermark}
            continue
        first = bisect_left(seqs, commit.record.from_watermark + 1)
        through = bisect_right(seqs, commit.record.watermark)
        covered |= dict.fromkeys(seqs[first:through], change.version)
    shortened = frozenset(elision.seq for elision in stored.elisions)
    return TurnOutcomes(stored, watermark, beginning, covered, shortened)


# --- shapes in an SVG's coordinates, for a wide page and a narrow one -----------------------------

_HEADROOM = 1.08
_LEAST_GAP = 12.0
_CHARACTER = 7.0
_DENSE = 60


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick or a limit: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A compaction, rollback or clear: a vertical line and a sign at its end.

    Attributes:
        name: short text above it; ``""`` where there is no room.
        href: of its description on the page, or ``""``.
    """

    kind: str
    x: float
    top: float
    bottom: float
    end: float
    name: str
    name_at: float
    title: str
    href: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a drawing has its edges, and turns and tokens their coordinates."""

    wide: bool
    first: int
    last: int
    most: float

    @property
    def width(self) -> int:
        return 1040 if self.wide else 380

    @property
    def height(self) -> int:
        return 340 if self.wide else 300

    @property
    def left(self) -> float:
        return 58.0 if self.wide else 44.0

    @property
    def right(self) -> float:
        return self.width - 14.0

    @property
    def top(self) -> float:
        return 36.0

    @property
    def bottom(self) -> float:
        return self.height - 44.0

    def x(self, seq: float) -> float:
        share = (seq - self.first) / max(1, self.last - self.first)
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, tokens: float) -> float:
        return round(self.bottom - tokens / self.most * (self.bottom - self.top), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All shapes of one drawing.

    Attributes:
        line: the context's tokens, as a path; ``guess`` is the estimated parts of it.
        area: the same, closed along the bottom.
    """

    name: str
    frame: _Frame
    line: str
    guess: str
    area: str
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    soft: Tick | None
    hard: Tick | None
    marks: tuple[Mark, ...]


def chart(trajectory: Trajectory, curve: TokenCurve, *, wide: bool) -> Chart:
    """The drawing, 1040 or 380 units wide."""
    peak = max(point.tokens for point in curve.points)
    most = max(peak, trajectory.hard_limit, trajectory.soft_limit, 1) * _HEADROOM
    frame = _Frame(wide, curve.points[0].seq, max(curve.points[-1].seq, 1), most)
    points = _thinned(curve.points, frame)
    line = _path(points, frame)
    ends = f"L{frame.x(points[-1].seq)} {frame.bottom}L{frame.x(points[0].seq)} {frame.bottom}Z"
    return Chart(
        name=("wide" if wide else "narrow") + (" dense" if is_dense(curve) else ""),
        frame=frame,
        line=line,
        guess=_guess(points, frame),
        area=line + ends,
        across=tuple(_token_ticks(frame)),
        down=tuple(_turn_ticks(frame)),
        soft=_limit("soft limit", trajectory.soft_limit, frame),
        hard=_limit("hard limit", trajectory.hard_limit, frame),
        marks=_marks(curve, frame),
    )


def is_dense(curve: TokenCurve) -> bool:
    """Whether its changes are too many to be told apart in one drawing."""
    return len(curve.changes) > _DENSE


def _thinned(points: tuple[Point, ...], frame: _Frame) -> list[Point]:
    """At most some points for each unit of width, with all that stand above one another."""
    kept = [points[0]]
    for at, point in enumerate(points[1:-1], 1):
        is_drop = point.seq in (points[at - 1].seq, points[at + 1].seq)
        if is_drop or frame.x(point.seq) - frame.x(kept[-1].seq) >= 1:
            kept.append(point)
    return [*kept, *points[1:][-1:]]


def _path(points: list[Point], frame: _Frame) -> str:
    steps = (f"{frame.x(point.seq)} {frame.y(point.tokens)}" for point in points)
    return "M" + "L".join(steps)


def _guess(points: list[Point], frame: _Frame) -> str:
    """The parts that end in an estimate."""
    parts = []
    for one, other in pairwise(points):
        if not other.exact:
            parts.append(_path([one, other], frame))
    return "".join(parts)


def _token_ticks(frame: _Frame) -> list[Tick]:
    step = _nice(frame.most, 5)
    values = range(0, int(frame.most) + 1, step)
    return [Tick(frame.y(value), _short(value)) for value in values]


def _turn_ticks(frame: _Frame) -> list[Tick]:
    step = _nice(frame.last - frame.first, 12 if frame.wide else 5)
    start = math.ceil(max(1, frame.first) / step) * step
    return [Tick(frame.x(seq), f"{seq:,}") for seq in range(start, frame.last + 1, step)]


def _limit(name: str, tokens: int, frame: _Frame) -> Tick | None:
    return Tick(frame.y(tokens), f"{name} {tokens:,}") if tokens > 0 else None


def _marks(curve: TokenCurve, frame: _Frame) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    named_at = [-math.inf, -math.inf]
    for change in curve.changes:
        x = frame.x(change.seq)
        name = f"v{change.version}" if change.version else "clear"
        # Names that would touch stand in two rows; a third has no room.
        gap = _LEAST_GAP + _CHARACTER * len(name)
        row = next((at for at, last in enumerate(named_at) if x - last >= gap), None)
        if row is not None:
            named_at[row] = x
        ends = sorted((frame.y(change.before), frame.y(change.after)))
        marks.append(
            Mark(
                kind=change.kind,
                x=x,
                top=ends[0],
                bottom=ends[1],
                end=frame.y(change.after),
                name=name if row is not None else "",
                name_at=frame.top - 24.0 + 13.0 * (row or 0),
                title=title(change),
                # Hundreds of links in a row would bar a keyboard's way to the cards.
                href=f"#version-{change.version}" if change.version and not is_dense(curve) else "",
            )
        )
    return tuple(marks)


_KINDS = {"compaction": "Compaction", "rollback": "Rollback", "cleared": "Cleared"}


def title(change: ContextChange) -> str:
    """What happened, when, and to how many tokens."""
    name = _KINDS[change.kind] + (f" v{change.version}" if change.version else "")
    when = f", {clock(change.at_ms)} UTC" if clock(change.at_ms) else ""
    before = ("" if change.before_exact else "about ") + f"{change.before:,}"
    after = ("" if change.after_exact else "about ") + f"{change.after:,}"
    return f"{name} after turn {change.seq}{when}: {before} → {after} tokens"


def _nice(span: float, most: int) -> int:
    """A round distance, 1, 2 or 5 times a power of ten, of which ``most`` fit into ``span``."""
    least = max(1.0, span / most)
    power = 10 ** math.floor(math.log10(least))
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= least))


def _short(value: int) -> str:
    thousand = 1000
    if value < thousand:
        return str(value)
    if value < thousand * thousand:
        return f"{value / thousand:g}k"
    return f"{value / thousand / thousand:g}M"
