"""How sessions and words leave the archive; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.archive import writes
from turnmill_worker.archive.memories import memories_were_deleted
from turnmill_worker.archive.rows import (
    chunks,
    compaction_row,
    epoch_number,
    lock,
    of,
    session_row,
    turn_row,
)
from turnmill_worker.archive.schema import (
    blob_refs,
    blobs,
    compactions,
    erasures,
    forks,
    managed_views,
    memories,
    opened_row,
    sealed_rows,
    sessions,
    turns,
)
from turnmill_worker.ports.values import Batch, Emptied, Erasure, Fork, Gone, Removed, SessionRef


def remove(
    connection: Connection,
    ref: SessionRef,
    *,
    through_epoch: int | None = None,
    but: int | None = None,
    older_than_ms: int | None = None,
    only: int | None = None,
) -> Removed:
    """Delete the session: all of it, or up to an incarnation, or only if it is still that old.

    ``but`` is an incarnation that stays, with what Redis lost of it; ``only`` the one that goes.
    """
    lock(connection, ref.namespace)
    if older_than_ms is not None and not _is_older(connection, ref, older_than_ms):
        return Removed()
    kept = () if but is None else (but, *_branches(connection, ref, but))

    def which(table: Table) -> ColumnElement[bool]:
        return _which(table, ref, through_epoch, kept) if only is None else of(table, ref, only)

    def gone(table: Table) -> int:
        return connection.execute(delete(table).where(which(table))).rowcount

    hashes = select(blob_refs.c.sha256).where(which(blob_refs))
    shown = set(connection.execute(hashes).scalars())
    for table in (sessions, blob_refs, forks):
        gone(table)
    removed = Removed(
        turns=gone(turns),
        compactions=gone(compactions),
        views=gone(managed_views),
        memories=gone(memories),
        blobs=release(connection, ref.namespace, shown),
    )
    if only is None:
        connection.execute(delete(erasures).where(_records(ref, through_epoch, but)))
    if removed.memories:
        memories_were_deleted(connection, ref.namespace)
    return removed


def note_fork(connection: Connection, ref: SessionRef, epoch: int, fork: Fork) -> None:
    """Keep that it has turns of this session, and of those that this one has turns of."""
    lock(connection, ref.namespace)
    earlier = connection.execute(select(forks.c.parent).where(of(forks, ref, epoch))).scalars()
    own = {"session": fork.session, "epoch": epoch_number(fork.epoch), "until_ms": fork.until_ms}
    parents = sorted({ref.session, *earlier})
    rows = [{"namespace": ref.namespace, "parent": parent, **own} for parent in parents]
    connection.execute(insert(forks), rows)


def read_forks(connection: Connection, ref: SessionRef) -> list[Fork]:
    """The sessions that have turns of this one."""
    mine = (forks.c.namespace == ref.namespace) & (forks.c.parent == ref.session)
    rows = connection.execute(select(forks).where(mine).order_by(forks.c.epoch))
    return [Fork(SessionId(row.session), str(row.epoch), row.until_ms) for row in rows]


def count(connection: Connection, ref: SessionRef) -> Removed:
    """How much of the session is there; an image counts once for each place that shows it."""

    def there(table: Table) -> int:
        counted = select(func.count()).select_from(table).where(of(table, ref))
        return connection.execute(counted).scalar_one()

    return Removed(
        turns=there(turns),
        compactions=there(compactions),
        views=there(managed_views),
        blobs=there(blob_refs),
        memories=there(memories),
    )


def older(
    connection: Connection, older_than_ms: int, namespace: Namespace | None
) -> list[SessionRef]:
    """Sessions to which nothing was added since then, in any incarnation."""
    wanted = (
        select(sessions.c.namespace, sessions.c.session)
        .group_by(sessions.c.namespace, sessions.c.session)
        .having(func.max(sessions.c.last_at_ms) < older_than_ms)
    )
    if namespace is not None:
        wanted = wanted.where(sessions.c.namespace == namespace)
    return [
        SessionRef(Namespace(row.namespace), SessionId(row.session))
        for row in connection.execute(wanted)
    ]


def _which(
    table: Table, ref: SessionRef, through_epoch: int | None, kept: Collection[int]
) -> ColumnElement[bool]:
    mine = of(table, ref)
    if kept:
        mine &= table.c.epoch.not_in(kept)
    return mine if through_epoch is None else mine & (table.c.epoch <= through_epoch)


def _records(ref: SessionRef, through_epoch: int | None, but: int | None) -> ColumnElement[bool]:
    """Records of erasures, by when they were: an epoch is the microsecond a session began."""
    records = of(erasures, ref)
    if through_epoch is not None:
        records &= erasures.c.at_ms <= through_epoch // 1000
    return records if but is None else records & (erasures.c.at_ms < but // 1000)


def _branches(connection: Connection, ref: SessionRef, epoch: int) -> Iterable[int]:
    wanted = select(sessions.c.epoch).where(of(sessions, ref), sessions.c.branch_of == epoch)
    return connection.execute(wanted).scalars()


def _is_older(connection: Connection, ref: SessionRef, older_than_ms: int) -> bool:
    newest = connection.execute(
        select(func.max(sessions.c.last_at_ms)).where(of(sessions, ref))
    ).scalar()
    return newest is not None and newest < older_than_ms


def release(connection: Connection, namespace: Namespace, hashes: set[str]) -> int:
    """Delete the images nothing refers to any more."""
    still_shown = exists().where(
        blob_refs.c.namespace == blobs.c.namespace, blob_refs.c.sha256 == blobs.c.sha256
    )
    return sum(
        connection.execute(
            delete(blobs).where(
                blobs.c.namespace == namespace, blobs.c.sha256.in_(some), ~still_shown
            )
        ).rowcount
        for some in chunks(sorted(hashes))
    )


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
    return Gone(memories=gone, images=release(connection, ref.namespace, shown))


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


def read_epochs(connection: Connection, ref: SessionRef) -> dict[str, str]:
    """The session's incarnations, oldest first, each after what Redis lost of it.

    By epoch; for what was lost, the epoch it was taken from.
    """
    known = select(sessions.c.epoch, sessions.c.branch_of).where(of(sessions, ref))
    lost = {row.epoch: row.branch_of for row in connection.execute(known)}
    from_turns = select(turns.c.epoch).where(of(turns, ref))
    from_contexts = select(compactions.c.epoch).where(of(compactions, ref))
    found = lost.keys() | connection.execute(from_turns.union(from_contexts)).scalars()
    return {str(epoch): str(lost.get(epoch) or epoch) for epoch in sorted(found)}


def read_pushed(connection: Connection, namespace: Namespace) -> list[tuple[str, str]]:
    """The memories that were pushed to the namespace: ids and texts."""
    wanted = select(memories).where(memories.c.namespace == namespace, memories.c.kind == "pushed")
    rows = connection.execute(wanted)
    return [(row.id, opened_row(connection, memories, row).text) for row in rows]


def note_erasure(connection: Connection, namespace: Namespace, erasure: Erasure) -> None:
    """Keep the record of an erasure, in the place of an earlier one of its id."""
    mine = (erasures.c.namespace == namespace) & (erasures.c.id == erasure.id)
    connection.execute(delete(erasures).where(mine))
    row = asdict(erasure) | {"namespace": namespace, "turns": encode_json(erasure.turns)}
    connection.execute(insert(erasures).values(row))


def read_erasures(
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
