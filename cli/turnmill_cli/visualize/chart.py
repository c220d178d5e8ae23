"""The curve of tokens as shapes in an SVG's coordinates, for a wide page and a narrow one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize.token_curve import ContextChange, TokenCurve
from turnmill_cli.visualize.turn_tokens import Point
from turnmill_cli.visualize.visible_text import clock

__all__ = ["Chart", "Mark", "Tick", "chart", "is_dense", "title"]

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
class Frame:
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
    frame: Frame
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
    frame = Frame(wide, curve.points[0].seq, max(curve.points[-1].seq, 1), most)
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


def _thinned(points: tuple[Point, ...], frame: Frame) -> list[Point]:
    """At most some points for each unit of width, with all that stand above one another."""
    kept = [points[0]]
    for at, point in enumerate(points[1:-1], 1):
        is_drop = point.seq in (points[at - 1].seq, points[at + 1].seq)
        if is_drop or frame.x(point.seq) - frame.x(kept[-1].seq) >= 1:
            kept.append(point)
    return [*kept, *points[1:][-1:]]


def _path(points: list[Point], frame: Frame) -> str:
    steps = (f"{frame.x(point.seq)} {frame.y(point.tokens)}" for point in points)
    return "M" + "L".join(steps)


def _guess(points: list[Point], frame: Frame) -> str:
    """The parts that end in an estimate."""
    parts = []
    for one, other in pairwise(points):
        if not other.exact:
            parts.append(_path([one, other], frame))
    return "".join(parts)


def _token_ticks(frame: Frame) -> list[Tick]:
    step = _nice(frame.most, 5)
    values = range(0, int(frame.most) + 1, step)
    return [Tick(frame.y(value), _short(value)) for value in values]


def _turn_ticks(frame: Frame) -> list[Tick]:
    step = _nice(frame.last - frame.first, 12 if frame.wide else 5)
    start = math.ceil(max(1, frame.first) / step) * step
    return [Tick(frame.x(seq), f"{seq:,}") for seq in range(start, frame.last + 1, step)]


def _limit(name: str, tokens: int, frame: Frame) -> Tick | None:
    return Tick(frame.y(tokens), f"{name} {tokens:,}") if tokens > 0 else None


def _marks(curve: TokenCurve, frame: Frame) -> tuple[Mark, ...]:
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
