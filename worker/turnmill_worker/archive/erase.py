"""How words leave the archive; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Select, delete, insert, select, update

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.archive import forget as forgetting
from turnmill_worker.archive import writes
from turnmill_worker.archive.memory_writes import memories_were_deleted
from turnmill_worker.archive.rows import chunks, compaction_row, lock, of, session_row, turn_row
from turnmill_worker.archive.schema import (
    blob_refs,
    compactions,
    erasures,
    managed_views,
    memories,
    sessions,
    turns,
)
from turnmill_worker.archive.sealed_rows import opened_row, sealed_rows
from turnmill_worker.ports.erasure import Emptied, Erasure, Gone
from turnmill_worker.ports.records import Batch
from turnmill_worker.ports.values import SessionRef

__all__ = ["epochs", "erase", "note", "pushed", "recorded"]

_AT_ONCE = 500


def erase(connection: Connection, ref: SessionRef, epoch: int, emptied: Emptied) -> Gone:
    """Put what was erased in the place of what is there, and of what a drain may yet bring.

    What a drain read before comes too late: the rows are there then, and stay as they are.
    """
    lock(connection, ref.namespace)
    if emptied.turns:
        writes.store(connection, [writes.Kept(ref, epoch, Batch(turns=emptied.turns))])
    for turn in emptied.turns:
        [row] = sealed_rows(connection, turns, [session_row(ref, epoch) | turn_row(turn)])
        own = {name: row[name] for name in ("turn_id", "messages", "fields", "tokens")}
        connection.execute(
            update(turns).where(of(turns, ref, epoch), turns.c.seq == turn.seq).values(own)
        )
    shown: set[str] = set()
    for seqs in _some(emptied.all_turns):
        mine = (of(blob_refs, ref, epoch), blob_refs.c.seq.in_(seqs))
        shown.update(connection.execute(select(blob_refs.c.sha256).where(*mine)).scalars())
        connection.execute(delete(blob_refs).where(*mine))
    _empty_contexts(connection, ref, epoch, emptied)
    gone = _forget_memories(connection, ref, epoch, emptied)
    if gone:
        memories_were_deleted(connection, ref.namespace)
    return Gone(memories=gone, images=forgetting.release(connection, ref.namespace, shown))


def _empty_contexts(connection: Connection, ref: SessionRef, epoch: int, emptied: Emptied) -> None:
    for each in emptied.contexts:
        whole = session_row(ref, epoch) | compaction_row(each)
        [row] = sealed_rows(connection, compactions, [whole])
        own = {name: row[name] for name in ("context", "detail")}
        mine = (of(compactions, ref, epoch), compactions.c.version == each.version)
        if not connection.execute(update(compactions).where(*mine).values(own)).rowcount:
            connection.execute(insert(compactions).values(row))
    for versions in _some([each.version for each in emptied.contexts]):
        mine = (of(managed_views, ref, epoch), managed_views.c.version.in_(versions))
        connection.execute(delete(managed_views).where(*mine))


def _forget_memories(connection: Connection, ref: SessionRef, epoch: int, emptied: Emptied) -> int:
    """What turns left goes; and what contexts left, if one goes: the next one brings its own."""
    gone = 0
    mine = of(memories, ref, epoch)
    for seqs in _some(emptied.all_turns):
        said = delete(memories).where(mine, memories.c.kind == "turn", memories.c.origin.in_(seqs))
        gone += connection.execute(said).rowcount
    if emptied.contexts:
        told = delete(memories).where(mine, memories.c.kind == "summary")
        gone += connection.execute(told).rowcount
    for ids in chunks(emptied.memories):
        pushed_ones = (memories.c.namespace == ref.namespace) & memories.c.id.in_(ids)
        gone += connection.execute(delete(memories).where(pushed_ones)).rowcount
    return gone


def _some(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]


def epochs(connection: Connection, ref: SessionRef) -> dict[str, str]:
    """The session's incarnations, oldest first, each after what Redis lost of it.

    By epoch; for what was lost, the epoch it was taken from.
    """
    known = select(sessions.c.epoch, sessions.c.branch_of).where(of(sessions, ref))
    lost = {row.epoch: row.branch_of for row in connection.execute(known)}
    from_turns = select(turns.c.epoch).where(of(turns, ref))
    from_contexts = select(compactions.c.epoch).where(of(compactions, ref))
    found = lost.keys() | connection.execute(from_turns.union(from_contexts)).scalars()
    return {str(epoch): str(lost.get(epoch) or epoch) for epoch in sorted(found)}


def pushed(connection: Connection, namespace: Namespace) -> list[tuple[str, str]]:
    """The memories that were pushed to the namespace: ids and texts."""
    wanted = select(memories).where(memories.c.namespace == namespace, memories.c.kind == "pushed")
    rows = connection.execute(wanted)
    return [(row.id, opened_row(connection, memories, row).text) for row in rows]


def note(connection: Connection, namespace: Namespace, erasure: Erasure) -> None:
    """Keep the record of an erasure, in the place of an earlier one of its id."""
    mine = (erasures.c.namespace == namespace) & (erasures.c.id == erasure.id)
    connection.execute(delete(erasures).where(mine))
    row = asdict(erasure) | {"namespace": namespace, "turns": encode_json(erasure.turns)}
    connection.execute(insert(erasures).values(row))


def recorded(
    connection: Connection, namespace: Namespace, session: SessionId | None
) -> list[Erasure]:
    """The records of erasures, oldest first."""
    wanted: Select = select(erasures).where(erasures.c.namespace == namespace)  # type: ignore[type-arg]
    if session is not None:
        wanted = wanted.where(erasures.c.session == session)
    rows = connection.execute(wanted.order_by(erasures.c.at_ms, erasures.c.id))
    return [
        Erasure(
            id=row.id,
            session=SessionId(row.session),
            at_ms=row.at_ms,
            by=row.by,
            how=row.how,
            turns=tuple(Seq(seq) for seq in decode_json(row.turns)),
            contexts=row.contexts,
            checkpoints=row.checkpoints,
            memories=row.memories,
            images=row.images,
        )
        for row in rows
    ]
