"""Which memories turns and compactions leave, and how they get into the archive.

Each function that takes a connection runs inside its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from turnmill.contract.codec import decode_json
from turnmill.contract.errors import QuotaExceeded
from turnmill.contract.names import Namespace
from turnmill_worker.archive.rows import (
    Made,
    RowValues,
    chunks,
    insert,
    insert_absent,
    insert_new,
    lock,
    memory_row,
    session_row,
)
from turnmill_worker.archive.schema import compactions, memories, namespaces, sealed_rows
from turnmill_worker.ports.values import ArchivedCompaction, ArchivedTurn, Memory, SessionRef
from turnmill_worker.reading.remembered import remembered
from turnmill_worker.reading.voices import RESULT

MAX_TEXT = 2_000
"""Characters of a message that become its memory: what is asked for stands near its beginning."""


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
        for speaker, text in remembered(message, calls, MAX_TEXT)
    ]
    several = sum(speaker != RESULT for _, speaker, _ in told) > 1
    base = f"{ref.session}:{epoch}:turn:{turn.seq}"
    made: list[Made] = []
    for index, speaker, text in told:
        first += speaker != RESULT
        memory = Memory(
            id=f"{base}.{index}" if several or speaker == RESULT else base,
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


_NEWEST_POSITION = (
    select(memories.c.position)
    .where(*(memories.c[name] == bindparam(name) for name in ("namespace", "session", "epoch")))
    .where(memories.c.kind == "turn")
    # By the index: turns come in the order of their seqs.
    .order_by(memories.c.origin.desc(), memories.c.position.desc())
    .limit(1)
)
_NEWEST_VERSION = select(func.max(compactions.c.version)).where(
    *(compactions.c[name] == bindparam(name) for name in ("namespace", "session", "epoch"))
)
_PUSHED = (
    select(func.count())
    .where(memories.c.namespace == bindparam("mine"))
    .where(memories.c.kind == "pushed")
)
_DELETED = (
    update(namespaces)
    .where(namespaces.c.namespace == bindparam("mine"))
    .values(memory_generation=namespaces.c.memory_generation + 1)
)
_TAKE_CURSORS = (
    update(namespaces)
    .where(namespaces.c.namespace == bindparam("mine"))
    .values(memory_cursor=namespaces.c.memory_cursor + bindparam("count"))
    .returning(namespaces.c.memory_cursor)
)

Source = tuple[SessionRef, int, ArchivedCompaction]
"""A session, its epoch, and a compaction of it."""

Dated = tuple[int | None, Made]
"""A memory, and the epoch of the incarnation it was made of; None for a pushed one."""


def next_position(connection: Connection, ref: SessionRef, epoch: int) -> int:
    """The position after all that this incarnation said and is remembered; 1 for the first."""
    return (connection.execute(_NEWEST_POSITION, session_row(ref, epoch)).scalar() or 0) + 1


def remember(
    connection: Connection, namespace: Namespace, memory: Memory, most: int | None
) -> bool:
    """Insert a memory an agent pushed; False when its id is there already."""
    lock(connection, namespace)
    [row] = _rows(connection, namespace, [(None, Made(0, memory))])
    if not insert_new(connection, memories, ("id",), [row]):
        return False
    if most is not None:
        pushed = connection.execute(_PUSHED, {"mine": namespace}).scalar_one()
        if pushed > most:  # nobody else inserts any meanwhile
            raise QuotaExceeded.of("memories", pushed - 1, most)
    return True


def insert_memories(connection: Connection, namespace: Namespace, made: Sequence[Dated]) -> None:
    """Insert the memories that are not there yet."""
    if made:
        insert_absent(connection, memories, _rows(connection, namespace, made))


def replace_summaries(
    connection: Connection, namespace: Namespace, newest: Sequence[Source]
) -> None:
    """Let each session's one summary be that of its newest context, or go if that has none."""
    standing, gone = [], []
    for ref, epoch, compaction in newest:
        if connection.execute(_NEWEST_VERSION, session_row(ref, epoch)).scalar() != (
            compaction.version
        ):
            continue  # a late one: a newer summary, or a newer context without any, stands
        made = of_summary(ref, str(epoch), compaction)
        if made is None:
            gone.append(f"{ref.session}:{epoch}:summary")
        else:
            standing.append((epoch, made))
    if standing:
        rows = sealed_rows(connection, memories, _rows(connection, namespace, standing))
        connection.execute(_upserting(connection.dialect.name), rows)
    deleted = sum(_delete(connection, namespace, some) for some in chunks(gone))
    if deleted:
        memories_were_deleted(connection, namespace)


def memories_were_deleted(connection: Connection, namespace: Namespace) -> None:
    """Tell readers that follow the memories by cursor to begin again."""
    connection.execute(_DELETED, {"mine": namespace})


def _delete(connection: Connection, namespace: Namespace, ids: Sequence[str]) -> int:
    mine = (memories.c.namespace == namespace) & memories.c.id.in_(ids)
    return connection.execute(delete(memories).where(mine)).rowcount


def _rows(connection: Connection, namespace: Namespace, made: Sequence[Dated]) -> list[RowValues]:
    """The memories as rows, under cursors nobody has used."""
    last: int = connection.execute(
        _TAKE_CURSORS, {"mine": namespace, "count": len(made)}
    ).scalar_one()
    first = last - len(made) + 1
    return [memory_row(namespace, epoch, one, at) for at, (epoch, one) in enumerate(made, first)]


@cache
def _upserting(dialect: str) -> Any:
    statement = insert(dialect, memories)
    changed = {name: statement.excluded[name] for name in ("cursor", "text", "origin", "at_ms")}
    return statement.on_conflict_do_update(index_elements=["namespace", "id"], set_=changed)
