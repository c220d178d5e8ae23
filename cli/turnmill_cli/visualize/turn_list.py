"""The turns as a page lists them, with what became of each, and the changes between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill_cli.output import count
from turnmill_cli.visualize.chart import title
from turnmill_cli.visualize.messages import MessageFormatter, ShownMessage
from turnmill_cli.visualize.token_curve import ContextChange, TokenCurve
from turnmill_cli.visualize.turn_outcomes import TurnOutcomes
from turnmill_cli.visualize.turn_tokens import Point, weights
from turnmill_cli.visualize.visible_text import Text, as_json, clock, text

__all__ = ["Badge", "TurnEntry", "turn_entries"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A few words on a turn; ``href`` leads to what they speak of, or is empty."""

    kind: str
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEntry:
    """One turn, and what happened right after it.

    Attributes:
        outcome: what became of it, as a colour: ``now``, ``covered`` or ``aside``.
        tokens: in words.
        metadata: what the agent said about it, or None.
        changes: compactions, rollbacks and clears before the next turn, in words with their link.
    """

    seq: int
    outcome: str
    when: str
    tokens: str
    weight: int
    badges: tuple[Badge, ...]
    messages: tuple[ShownMessage, ...]
    metadata: Text | None
    changes: tuple[Badge, ...]


def turn_entries(
    trajectory: Trajectory, curve: TokenCurve, outcomes: TurnOutcomes, formatter: MessageFormatter
) -> Iterator[TurnEntry]:
    """One entry for each turn, in order."""
    weight = weights(trajectory)
    changes: dict[int, list[ContextChange]] = {}
    for change in curve.changes:
        changes.setdefault(change.seq, []).append(change)
    for turn in trajectory.turns:
        yield TurnEntry(
            seq=turn.seq,
            outcome=_outcome(turn, outcomes),
            when=clock(turn.at_ms),
            tokens=_tokens(weight[turn.seq]),
            weight=weight[turn.seq].tokens,
            badges=tuple(_badges(turn, outcomes)),
            messages=formatter.shown(turn.messages, f"turn {turn.seq}"),
            metadata=text(as_json(turn.metadata)) if turn.metadata else None,
            changes=tuple(_between(change) for change in changes.get(turn.seq, ())),
        )


def _tokens(weight: Point) -> str:
    return count(weight.tokens, "token") if weight.exact else f"about {weight.tokens:,} tokens"


def _outcome(turn: TrajectoryTurn, outcomes: TurnOutcomes) -> str:
    if turn.state != "kept":
        return "aside"
    return "now" if outcomes.is_read_now(turn) else "covered"


def _badges(turn: TrajectoryTurn, outcomes: TurnOutcomes) -> Iterator[Badge]:
    if turn.pinned:
        yield Badge("pinned", "pinned: kept word for word")
    if turn.iteration is not None:
        yield Badge("plain", f"iteration {turn.iteration}")
    version = outcomes.covered.get(turn.seq)
    if version is not None and not turn.pinned:
        yield Badge("covered", f"covered by v{version}", f"#version-{version}")
    if turn.state == "rolled-back":
        yield Badge("aside", "rolled back: not part of the conversation")
    elif turn.state == "cleared":
        yield Badge("aside", "cleared: not part of the conversation")
    elif turn.seq in outcomes.shortened:
        yield Badge("short", "read shortened now", f"#version-{outcomes.stored.version}")
    elif turn.seq > outcomes.watermark:
        yield Badge("now", "read word for word now")


def _between(change: ContextChange) -> Badge:
    return Badge(change.kind, title(change), f"#version-{change.version}" if change.version else "")
