"""How many tokens a session's context had, turn by turn: what is known, and what is estimated."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from turnmill.contract.context import Usage
from turnmill.contract.render import system_message
from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn
from turnmill_cli.visualize.turn_tokens import Point, estimated, weights

__all__ = ["ContextChange", "TokenCurve", "token_curve"]


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
