"""What one drain stores; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, case, delete, func, select, update

from turnmill.contract.names import Namespace
from turnmill.contract.trajectory import TurnState
from turnmill_worker.archive import memory_extraction as making
from turnmill_worker.archive.memory_extraction import Made
from turnmill_worker.archive.rows import (
    RowValues,
    chunks,
    insert,
    lock,
    memory_row,
    of,
    session_row,
    turn_row,
    view_row,
)
from turnmill_worker.archive.schema import (
    blob_refs,
    blobs,
    compactions,
    managed_views,
    memories,
    namespaces,
    sessions,
    turns,
)
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn, Batch, Memory
from turnmill_worker.ports.values import SessionRef

__all__ = ["mark", "memories_were_deleted", "remember", "store"]


def store(connection: Connection, ref: SessionRef, epoch: int, batch: Batch) -> None:
    """Insert what is not there yet; only what is new leaves memories."""
    lock(connection, ref.namespace)
    new_turns = _insert_turns(connection, ref, epoch, batch.turns)
    new_compactions = _insert_compactions(connection, ref, epoch, batch.compactions)
    _insert_blobs(connection, ref.namespace, batch)
    _touch(connection, ref, epoch, batch, new_turns=len(new_turns))
    first = _next_position(connection, ref, epoch) if new_turns else 0
    made = list(making.of_turns(ref, str(epoch), new_turns, first=first))
    for compaction in new_compactions:
        made.extend(making.of_events(ref, str(epoch), compaction))
    _insert_memories(connection, ref.namespace, epoch, made)
    if new_compactions:
        newest = max(new_compactions, key=lambda compaction: compaction.version)
        _replace_summary(connection, ref, epoch, newest)


def mark(
    connection: Connection,
    ref: SessionRef,
    epoch: int,
    *,
    after_seq: int,
    through_seq: int,
    state: TurnState,
) -> int:
    """Set kept turns aside, and forget their memories; returns the number of turns."""
    lock(connection, ref.namespace)
    aside = update(turns).where(
        of(turns, ref, epoch),
        turns.c.seq > after_seq,
        turns.c.seq <= through_seq,
        turns.c.state == "kept",
    )
    marked = connection.execute(aside.values(state=state)).rowcount
    if state != "kept":
        # A rolling summary's origin is a version; the commit of the rollback replaces it.
        gone = delete(memories).where(
            of(memories, ref, epoch),
            memories.c.origin > after_seq,
            memories.c.origin <= through_seq,
            memories.c.id != f"{ref.session}:{epoch}:summary",
        )
        if connection.execute(gone).rowcount:
            memories_were_deleted(connection, ref.namespace)
    return marked


def remember(connection: Connection, namespace: Namespace, memory: Memory) -> bool:
    """Insert a memory an agent pushed; False when its id is there already."""
    lock(connection, namespace)
    return _insert_memories(connection, namespace, None, [Made(0, memory)]) == 1


def memories_were_deleted(connection: Connection, namespace: Namespace) -> None:
    """Tell readers that follow the memories by cursor to begin again."""
    raised = update(namespaces).where(namespaces.c.namespace == namespace)
    connection.execute(raised.values(memory_generation=namespaces.c.memory_generation + 1))


def _insert_turns(
    connection: Connection, ref: SessionRef, epoch: int, batch: Sequence[ArchivedTurn]
) -> list[ArchivedTurn]:
    mine = session_row(ref, epoch)
    new = _insert_new(connection, turns, "seq", [mine | turn_row(turn) for turn in batch])
    refs = [
        mine | {"seq": turn.seq, "place": place, "sha256": sha256}
        for turn in batch
        for place, sha256 in enumerate(turn.blobs)
    ]
    _insert_absent(connection, blob_refs, refs)
    return [turn for turn in batch if turn.seq in new]


def _insert_compactions(
    connection: Connection, ref: SessionRef, epoch: int, batch: Sequence[ArchivedCompaction]
) -> list[ArchivedCompaction]:
    mine = session_row(ref, epoch)
    rows = [
        mine
        | {
            "version": compaction.version,
            "at_ms": compaction.at_ms,
            "record": compaction.record,
            "context": compaction.context,
            "detail": compaction.detail,
        }
        for compaction in batch
    ]
    new = _insert_new(connection, compactions, "version", rows)
    views = [mine | row for row in map(view_row, batch) if row is not None]
    _insert_absent(connection, managed_views, views)
    return [compaction for compaction in batch if compaction.version in new]


def _insert_blobs(connection: Connection, namespace: Namespace, batch: Batch) -> None:
    # Only images that something refers to: others would never be released.
    wanted: set[str] = set()
    for hashes in chunks(blob.sha256 for blob in batch.blobs):
        referred = select(blob_refs.c.sha256).where(
            blob_refs.c.namespace == namespace, blob_refs.c.sha256.in_(hashes)
        )
        wanted.update(connection.execute(referred).scalars())
    rows = [
        {
            "namespace": namespace,
            "sha256": blob.sha256,
            "media_type": blob.media_type,
            "data": blob.data,
        }
        for blob in batch.blobs
        if blob.sha256 in wanted
    ]
    _insert_absent(connection, blobs, rows)


def _touch(
    connection: Connection, ref: SessionRef, epoch: int, batch: Batch, *, new_turns: int
) -> None:
    moments = [turn.at_ms for turn in batch.turns]
    moments += [compaction.at_ms for compaction in batch.compactions]
    last_at_ms = max(moments, default=0)
    row = session_row(ref, epoch) | {"turns": new_turns, "last_at_ms": last_at_ms}
    statement = insert(connection, sessions).values(row)
    excluded = statement.excluded
    later = case(
        (sessions.c.last_at_ms < excluded.last_at_ms, excluded.last_at_ms),
        else_=sessions.c.last_at_ms,
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["namespace", "session", "epoch"],
            set_={"turns": sessions.c.turns + excluded.turns, "last_at_ms": later},
        )
    )


def _insert_memories(
    connection: Connection, namespace: Namespace, epoch: int | None, made: Sequence[Made]
) -> int:
    cursor = _cursors(connection, namespace, len(made))
    rows = [memory_row(namespace, epoch, one, cursor + at) for at, one in enumerate(made)]
    return len(_insert_new(connection, memories, "id", rows))


def _next_position(connection: Connection, ref: SessionRef, epoch: int) -> int:
    """The position after all that this incarnation said and is remembered; 1 for the first."""
    newest = (
        select(memories.c.position)
        .where(of(memories, ref, epoch), memories.c.kind == "turn")
        # By the index: turns come in the order of their seqs.
        .order_by(memories.c.origin.desc(), memories.c.position.desc())
        .limit(1)
    )
    return (connection.execute(newest).scalar() or 0) + 1


def _cursors(connection: Connection, namespace: Namespace, count: int) -> int:
    """The first of ``count`` cursors nobody has used."""
    mine = update(namespaces).where(namespaces.c.namespace == namespace)
    taken = mine.values(memory_cursor=namespaces.c.memory_cursor + count)
    last: int = connection.execute(taken.returning(namespaces.c.memory_cursor)).scalar_one()
    return last - count + 1


def _replace_summary(
    connection: Connection, ref: SessionRef, epoch: int, newest: ArchivedCompaction
) -> None:
    versions = select(func.max(compactions.c.version)).where(of(compactions, ref, epoch))
    if connection.execute(versions).scalar() != newest.version:
        return  # a late one: a newer summary, or a newer context without any, stands
    made = making.of_summary(ref, str(epoch), newest)
    if made is None:
        summary = f"{ref.session}:{epoch}:summary"
        gone = delete(memories).where(
            memories.c.namespace == ref.namespace, memories.c.id == summary
        )
        if connection.execute(gone).rowcount:
            memories_were_deleted(connection, ref.namespace)
        return
    cursor = _cursors(connection, ref.namespace, 1)
    statement = insert(connection, memories).values(memory_row(ref.namespace, epoch, made, cursor))
    changed = {name: statement.excluded[name] for name in ("cursor", "text", "origin", "at_ms")}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["namespace", "id"], set_=changed)
    )


def _insert_new(connection: Connection, table: Table, key: str, rows: list[RowValues]) -> set[Any]:
    """Insert the rows that are not there yet, and return their keys."""
    if not rows:
        return set()
    statement = insert(connection, table).on_conflict_do_nothing().returning(table.c[key])
    return set(connection.execute(statement, rows).scalars())


def _insert_absent(connection: Connection, table: Table, rows: list[RowValues]) -> None:
    if rows:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), rows)
