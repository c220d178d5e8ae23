"""The turns as a page lists them, with what became of each, and the drops between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill_cli.visualize.chart import title
from turnmill_cli.visualize.messages import Shown, Speaker
from turnmill_cli.visualize.safe_text import Text, as_json, clock, number, text
from turnmill_cli.visualize.sawtooth import Drop, Sawtooth
from turnmill_cli.visualize.turn_fates import Fates
from turnmill_cli.visualize.turn_tokens import Point, weights

__all__ = ["Badge", "Entry", "entries"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A few words on a turn; ``href`` leads to what they speak of, or is empty."""

    kind: str
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One turn, and what happened right after it.

    Attributes:
        fate: what became of it, as a colour: ``now``, ``covered`` or ``aside``.
        tokens: in words.
        metadata: what the agent said about it, or None.
        drops: compactions, rollbacks and clears before the next turn, in words with their link.
    """

    seq: int
    fate: str
    when: str
    tokens: str
    weight: int
    badges: tuple[Badge, ...]
    messages: tuple[Shown, ...]
    metadata: Text | None
    drops: tuple[Badge, ...]


def entries(
    trajectory: Trajectory, saw: Sawtooth, fates: Fates, speaker: Speaker
) -> Iterator[Entry]:
    """One entry for each turn, in order."""
    weight = weights(trajectory)
    drops: dict[int, list[Drop]] = {}
    for drop in saw.drops:
        drops.setdefault(drop.seq, []).append(drop)
    for turn in trajectory.turns:
        yield Entry(
            seq=turn.seq,
            fate=_fate(turn, fates),
            when=clock(turn.at_ms),
            tokens=_tokens(weight[turn.seq]),
            weight=weight[turn.seq].tokens,
            badges=tuple(_badges(turn, fates)),
            messages=speaker.shown(turn.messages, f"turn {turn.seq}"),
            metadata=text(as_json(turn.metadata)) if turn.metadata else None,
            drops=tuple(_between(drop) for drop in drops.get(turn.seq, ())),
        )


def _tokens(weight: Point) -> str:
    return number(weight.tokens, "token") if weight.exact else f"about {weight.tokens:,} tokens"


def _fate(turn: TrajectoryTurn, fates: Fates) -> str:
    if turn.state != "kept":
        return "aside"
    return "now" if fates.is_read_now(turn) else "covered"


def _badges(turn: TrajectoryTurn, fates: Fates) -> Iterator[Badge]:
    if turn.pinned:
        yield Badge("pinned", "pinned: kept word for word")
    if turn.iteration is not None:
        yield Badge("plain", f"iteration {turn.iteration}")
    version = fates.covered.get(turn.seq)
    if version is not None and not turn.pinned:
        yield Badge("covered", f"covered by v{version}", f"#version-{version}")
    if turn.state == "rolled-back":
        yield Badge("aside", "rolled back: not part of the conversation")
    elif turn.state == "cleared":
        yield Badge("aside", "cleared: not part of the conversation")
    elif turn.seq in fates.shortened:
        yield Badge("short", "read shortened now", f"#version-{fates.stored.version}")
    elif turn.seq > fates.watermark:
        yield Badge("now", "read word for word now")


def _between(drop: Drop) -> Badge:
    return Badge(drop.kind, title(drop), f"#version-{drop.version}" if drop.version else "")
