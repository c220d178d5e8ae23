"""Which memories turns and compactions leave; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.marks import author, is_memories
from turnmill.contract.render import RECALLED
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn, Memory
from turnmill_worker.ports.values import SessionRef

__all__ = ["MAX_TEXT", "TOOL", "Made", "of_events", "of_summary", "of_turns"]

MAX_TEXT = 2_000
"""Characters of a message that become its memory: what is asked for stands near its beginning."""

_MAX_CALL = 200

TOOL = "tool"
"""Who says what a tool returned; nobody else has this name."""

_SPEAKERS = ("user", "assistant")
_ROLES = (*_SPEAKERS, TOOL, "system", "developer", "function")


class Made(NamedTuple):
    """A memory and what it was made of: a turn's or event's seq, or a summary's version."""

    origin: int
    memory: Memory


def of_turns(
    ref: SessionRef, epoch: str, turns: Iterable[ArchivedTurn], *, first: int
) -> Iterator[Made]:
    """What is said in kept turns, at positions from ``first`` on, and what tools returned.

    A question and its answer are neighbours, however many calls lie between: a result has the
    position of what was said before it.
    """
    calls: dict[str, str] = {}
    for turn in turns:
        made = _of_turn(ref, epoch, turn, first, calls)
        yield from made
        # Only names go from turn to turn: what else a turn holds must go when it is erased.
        calls = {call_id: call.partition("(")[0] for call_id, call in calls.items()}
        first = max((one.memory.position + 1 for one in made), default=first)


def _of_turn(
    ref: SessionRef, epoch: str, turn: ArchivedTurn, first: int, calls: dict[str, str]
) -> list[Made]:
    """One memory for each message of a kept turn in which somebody, or a tool, says something."""
    if turn.state != "kept":
        return []
    told = [
        (index, speaker, text)
        for index, message in enumerate(_objects(turn.messages))
        for speaker, text in _told(message, calls)
    ]
    several = sum(speaker != TOOL for _, speaker, _ in told) > 1
    base = f"{ref.session}:{epoch}:turn:{turn.seq}"
    made: list[Made] = []
    for index, speaker, text in told:
        first += speaker != TOOL
        memory = Memory(
            id=f"{base}.{index}" if several or speaker == TOOL else base,
            kind="turn",
            text=text,
            speaker=speaker,
            session=ref.session,
            seq=turn.seq,
            position=first - 1,
            at_ms=turn.at_ms,
        )
        made.append(Made(turn.seq, memory))
    return made


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


def _told(message: dict[str, Any], calls: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Who says what in a message, if anything. Notes the calls that results are known by."""
    role, name = author(message), message.get("name")
    calls.update(_calls(message))
    if is_memories(message) or role not in {*_SPEAKERS, TOOL}:
        return
    text = _text(message.get("content")).strip()[:MAX_TEXT]
    if not text:
        return
    if role != TOOL:
        # A name that poses as a role would say that somebody else spoke.
        own = name if isinstance(name, str) and name.strip().lower() not in _ROLES else ""
        yield own or role, text
    elif message.get("role") == TOOL and not text.startswith(RECALLED):
        call = calls.pop(str(message.get("tool_call_id")), name)
        yield TOOL, f"{call}: {text}"[:MAX_TEXT] if isinstance(call, str) and call else text


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The calls of a message, by their ids, as what they returned is told of them."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(call_id), "function": {"name": str(name), **function}}:
                yield call_id, f"{name}({function.get('arguments') or ''})"[:_MAX_CALL]


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
