"""How memories get into the archive; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from turnmill.contract.errors import QuotaExceeded
from turnmill.contract.names import Namespace
from turnmill_worker.archive import memory_extraction as making
from turnmill_worker.archive.memory_extraction import Made
from turnmill_worker.archive.rows import (
    RowValues,
    chunks,
    insert,
    insert_absent,
    insert_new,
    lock,
    memory_row,
    session_row,
)
from turnmill_worker.archive.schema import compactions, memories, namespaces
from turnmill_worker.archive.sealed_rows import sealed_rows
from turnmill_worker.ports.records import ArchivedCompaction, Memory
from turnmill_worker.ports.values import SessionRef

__all__ = [
    "Dated",
    "insert_memories",
    "memories_were_deleted",
    "next_position",
    "remember",
    "replace_summaries",
]

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
        made = making.of_summary(ref, str(epoch), compaction)
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
