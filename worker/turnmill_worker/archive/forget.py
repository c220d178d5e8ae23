"""How a session leaves the archive; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    exists,
    func,
    select,
)

from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive.memory_writes import memories_were_deleted
from turnmill_worker.archive.rows import chunks, lock, of
from turnmill_worker.archive.schema import (
    blob_refs,
    blobs,
    compactions,
    erasures,
    managed_views,
    memories,
    sessions,
    turns,
)
from turnmill_worker.ports.records import Removed
from turnmill_worker.ports.values import SessionRef

__all__ = ["count", "older", "plus", "release", "remove"]


def remove(
    connection: Connection,
    ref: SessionRef,
    *,
    through_epoch: int | None = None,
    but: int | None = None,
    older_than_ms: int | None = None,
) -> Removed:
    """Delete the session: all of it, or up to an incarnation, or only if it is still that old.

    ``but`` is an incarnation that stays, with what Redis lost of it.
    """
    lock(connection, ref.namespace)
    if older_than_ms is not None and not _is_older(connection, ref, older_than_ms):
        return Removed()
    kept = () if but is None else (but, *_branches(connection, ref, but))

    def which(table: Table) -> ColumnElement[bool]:
        return _which(table, ref, through_epoch, kept)

    def gone(table: Table) -> int:
        return connection.execute(delete(table).where(which(table))).rowcount

    hashes = select(blob_refs.c.sha256).where(which(blob_refs))
    shown = set(connection.execute(hashes).scalars())
    gone(sessions)
    gone(blob_refs)
    removed = Removed(
        turns=gone(turns),
        compactions=gone(compactions),
        views=gone(managed_views),
        memories=gone(memories),
        blobs=release(connection, ref.namespace, shown),
    )
    connection.execute(delete(erasures).where(_records(ref, through_epoch, but)))
    if removed.memories:
        memories_were_deleted(connection, ref.namespace)
    return removed


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


def plus(one: Removed, other: Removed) -> Removed:
    """The sum of both."""
    return Removed(
        **{part.name: getattr(one, part.name) + getattr(other, part.name) for part in fields(one)}
    )


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
