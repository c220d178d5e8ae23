"""Which memories turns and compactions leave; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill_worker.ports import SessionRef
from turnmill_worker.records import ArchivedCompaction, ArchivedTurn, Memory

__all__ = ["MAX_TEXT", "NOT_REMEMBERED", "Made", "of_events", "of_summary", "of_turn"]

MAX_TEXT = 2_000
"""Characters of a message that become its memory: what is asked for stands near its beginning."""

NOT_REMEMBERED = "memories"
"""``name`` of messages that bring memories into a context: they do not become memories again."""

_SPEAKERS = ("user", "assistant")
_PER_TURN = 100


class Made(NamedTuple):
    """A memory and what it was made of: a turn's or event's seq, or a summary's version."""

    origin: int
    memory: Memory


def of_turn(ref: SessionRef, epoch: str, turn: ArchivedTurn) -> list[Made]:
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
                position=turn.seq * _PER_TURN + index,
                at_ms=turn.at_ms,
            ),
        )
        for index, speaker, text in said
    ]


def of_summary(ref: SessionRef, epoch: str, compaction: ArchivedCompaction) -> Made | None:
    """The memory of a context's summary, under the one id a session's summaries share."""
    context = _object(compaction.context)
    summary = context.get("summary")
    if not isinstance(summary, str) or not summary.strip():
        return None
    watermark = context.get("watermark", 0)
    memory = Memory(
        id=f"{ref.session}:{epoch}:summary",
        kind="summary",
        text=f"[context-summary] {summary}",
        session=ref.session,
        position=watermark * _PER_TURN + _PER_TURN - 1 if isinstance(watermark, int) else 0,
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
                    position=first_seq * _PER_TURN,
                    at_ms=compaction.at_ms,
                )
                yield Made(first_seq, memory)


def _said(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    role, name = message.get("role"), message.get("name")
    if role not in _SPEAKERS or name == NOT_REMEMBERED:
        return
    text = _text(message.get("content")).strip()[:MAX_TEXT]
    if text:
        yield name if isinstance(name, str) and name else str(role), text


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
