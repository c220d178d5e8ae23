"""Which memories turns and compactions leave; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from turnmill.contract.authors import author
from turnmill.contract.codec import decode_json
from turnmill.contract.memories_message import is_memories
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn, Memory
from turnmill_worker.ports.values import SessionRef

__all__ = ["MAX_TEXT", "Made", "of_events", "of_summary", "of_turns"]

MAX_TEXT = 2_000
"""Characters of a message that become its memory: what is asked for stands near its beginning."""

_SPEAKERS = ("user", "assistant")
_ROLES = (*_SPEAKERS, "system", "developer", "tool", "function")


class Made(NamedTuple):
    """A memory and what it was made of: a turn's or event's seq, or a summary's version."""

    origin: int
    memory: Memory


def of_turns(
    ref: SessionRef, epoch: str, turns: Iterable[ArchivedTurn], *, first: int
) -> Iterator[Made]:
    """What is said in kept turns, at positions from ``first`` on.

    Tools stay out: a question and its answer are neighbours, however many calls lie between.
    """
    for turn in turns:
        made = _of_turn(ref, epoch, turn, first)
        yield from made
        first += len(made)


def _of_turn(ref: SessionRef, epoch: str, turn: ArchivedTurn, first: int) -> list[Made]:
    """One memory for each message of a kept turn in which somebody says something."""
    if turn.state != "kept":
        return []
    said = [
        (index, speaker, text)
        for index, message in enumerate(_objects(turn.messages))
        for speaker, text in _said(message)
    ]
    several = len(said) > 1
    base = f"{ref.session}:{epoch}:turn:{turn.seq}"
    return [
        Made(
            turn.seq,
            Memory(
                id=f"{base}.{index}" if several else base,
                kind="turn",
                text=text,
                speaker=speaker,
                session=ref.session,
                seq=turn.seq,
                position=position,
                at_ms=turn.at_ms,
            ),
        )
        for position, (index, speaker, text) in enumerate(said, first)
    ]


def of_summary(ref: SessionRef, epoch: str, compaction: ArchivedCompaction) -> Made | None:
    """The memory of a context's summary, under the one id a session's summaries share."""
    context = _object(compaction.context)
    summary = context.get("summary")
    if not isinstance(summary, str) or not summary.strip():
        return None
    memory = Memory(
        id=f"{ref.session}:{epoch}:summary",
        kind="summary",
        text=f"[context-summary] {summary}",
        session=ref.session,
        at_ms=compaction.at_ms,
    )
    return Made(compaction.version, memory)


def of_events(ref: SessionRef, epoch: str, compaction: ArchivedCompaction) -> Iterator[Made]:
    """One memory for each iteration a context tells of."""
    events = _object(compaction.context).get("events")
    for event in events if isinstance(events, list) else ():
        match event:
            case {"first_seq": int(first_seq), "text": str(text)} if text.strip():
                memory = Memory(
                    id=f"{ref.session}:{epoch}:event:{first_seq}",
                    kind="summary",
                    text=f"[context-summary] {text}",
                    session=ref.session,
                    at_ms=compaction.at_ms,
                )
                yield Made(first_seq, memory)


def _said(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    role, name = author(message), message.get("name")
    if role not in _SPEAKERS or is_memories(message):
        return
    text = _text(message.get("content")).strip()[:MAX_TEXT]
    if text:
        # A name that poses as a role would say that somebody else spoke.
        own = name if isinstance(name, str) and name.strip().lower() not in _ROLES else ""
        yield own or role, text


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _objects(body: bytes) -> list[dict[str, Any]]:
    found = _decoded(body)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _object(body: bytes) -> dict[str, Any]:
    found = _decoded(body)
    return found if isinstance(found, dict) else {}


def _decoded(body: bytes) -> Any:
    try:
        return decode_json(body)
    except ValueError:
        return None  # a damaged turn is archived as it is; it must not stop all others
