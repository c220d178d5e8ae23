"""The context as the agent reads it now, each message with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.render import render_head, system_message
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize.messages import MessageFormatter, ShownMessage
from turnmill_cli.visualize.turn_outcomes import TurnOutcomes
from turnmill_cli.visualize.visible_text import span

__all__ = ["ContextMessage", "context_messages"]


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the context.

    Attributes:
        origin: where it comes from, in words; ``""`` when that cannot be told.
        href: of that place on the page, or ``""``.
        kind: as a colour: ``system``, ``stands-for``, ``turn`` or ``other``.
    """

    origin: str
    href: str
    kind: str
    message: ShownMessage


def context_messages(
    trajectory: Trajectory, outcomes: TurnOutcomes, formatter: MessageFormatter
) -> Iterator[ContextMessage]:
    """The messages of the context in order."""
    origins = _origins(trajectory, outcomes)
    for message in trajectory.context:
        known = origins.get(_key(message))
        # The same words may come from two turns: first come, first named.
        origin, href, kind = known.pop(0) if known else _other(message)
        (shown,) = formatter.shown([message], "the context")
        yield ContextMessage(origin, href, kind, shown)


_Origin = tuple[str, str, str]


def _origins(trajectory: Trajectory, outcomes: TurnOutcomes) -> dict[bytes, list[_Origin]]:
    found: dict[bytes, list[_Origin]] = {}

    def add(message: JsonMessage, origin: _Origin) -> None:
        found.setdefault(_key(message), []).append(origin)

    stored = outcomes.stored
    link = f"#version-{stored.version}"
    if trajectory.system_prompt:
        add(system_message(trajectory.system_prompt), ("System prompt", "", "system"))
    head = render_head(stored.model_copy(update={"pins": ()}))
    whole = f"Stands for {span(outcomes.first, stored.watermark)}"
    events = [f"Stands for {span(each.first_seq, each.last_seq)}" for each in stored.events]
    beside = len(head) - len(events) - bool(stored.summary)
    stands = [*([whole] if stored.summary else []), *events, *[whole] * beside]
    for message, words in zip(head, stands, strict=True):
        add(message, (words, link, "stands-for"))
    elided = {(each.seq, each.index): each.message for each in stored.elisions}
    for turn in trajectory.turns:
        if not outcomes.is_read_now(turn):
            continue
        pinned = ", pinned" if turn.pinned else ""
        for index, message in enumerate(turn.messages):
            short = elided.get((turn.seq, index))
            words = f"Turn {turn.seq}{pinned}{', shortened' if short else ''}"
            add(short or message, (words, f"#turn-{turn.seq}", "turn"))
    return found


def _key(message: JsonMessage) -> bytes:
    return sha256(encode_json(message)).digest()


def _other(message: JsonMessage) -> _Origin:
    if message.get("name") == "memories":
        return "Memories given to the agent", "", "stands-for"
    return "", "", "other"
