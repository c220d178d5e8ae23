"""Reads of the archive; each function runs inside its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive.rows import (
    ArchivedSession,
    ManagedView,
    chunks,
    compaction_from,
    memory_from,
    of,
    turn_from,
    view_from,
)
from turnmill_worker.archive.schema import (
    blob_refs,
    blobs,
    compactions,
    managed_views,
    memories,
    namespaces,
    opened_row,
    sessions,
    turns,
)
from turnmill_worker.ports.values import ArchivedCompaction, ArchivedTurn, Blob, Memory, SessionRef


def newest_epoch(connection: Connection, ref: SessionRef) -> int | None:
    """The session's last incarnation in the archive; None when there is none."""
    newest = select(func.max(sessions.c.epoch)).where(
        of(sessions, ref), sessions.c.branch_of.is_(None)
    )
    found: int | None = connection.execute(newest).scalar()
    return found


def read_turns(
    connection: Connection, ref: SessionRef, epoch: int, first_seq: int, last_seq: int | None
) -> list[ArchivedTurn]:
    """The turns by seq, set-aside ones included."""
    shown: dict[int, list[str]] = defaultdict(list)
    ranged = [
        of(blob_refs, ref, epoch),
        blob_refs.c.seq >= first_seq,
        *([] if last_seq is None else [blob_refs.c.seq <= last_seq]),
    ]
    refs = select(blob_refs.c.seq, blob_refs.c.sha256).where(*ranged)
    for row in connection.execute(refs.order_by(blob_refs.c.seq, blob_refs.c.place)):
        shown[row.seq].append(row.sha256)
    wanted = select(turns).where(of(turns, ref, epoch), turns.c.seq >= first_seq)
    if last_seq is not None:
        wanted = wanted.where(turns.c.seq <= last_seq)
    rows = connection.execute(wanted.order_by(turns.c.seq))
    return [turn_from(opened_row(connection, turns, row), shown.get(row.seq, ())) for row in rows]


def read_compactions(
    connection: Connection, ref: SessionRef, epoch: int, version: int | None = None
) -> list[ArchivedCompaction]:
    """The compactions by version, or the one of this version."""
    wanted = select(compactions).where(of(compactions, ref, epoch))
    if version is not None:
        wanted = wanted.where(compactions.c.version == version)
    rows = connection.execute(wanted.order_by(compactions.c.version))
    return [compaction_from(opened_row(connection, compactions, row)) for row in rows]


def read_views(connection: Connection, ref: SessionRef, epoch: int) -> list[ManagedView]:
    """The managed views by version."""
    wanted = select(managed_views).where(of(managed_views, ref, epoch))
    rows = connection.execute(wanted.order_by(managed_views.c.version))
    return [view_from(opened_row(connection, managed_views, row)) for row in rows]


def read_blobs(
    connection: Connection, namespace: Namespace, hashes: Sequence[str]
) -> dict[str, Blob]:
    """The images that are there, by hash."""
    found: dict[str, Blob] = {}
    for some in chunks(dict.fromkeys(hashes)):
        wanted = select(blobs).where(blobs.c.namespace == namespace, blobs.c.sha256.in_(some))
        for row in connection.execute(wanted):
            data = opened_row(connection, blobs, row).data
            found[row.sha256] = Blob(sha256=row.sha256, media_type=row.media_type, data=data)
    return found


def read_sessions(connection: Connection, namespace: Namespace, most: int) -> list[ArchivedSession]:
    """Sessions with something in the archive, the one last written to first."""
    last_at_ms = func.max(sessions.c.last_at_ms).label("last_at_ms")
    wanted = (
        select(sessions.c.session, func.sum(sessions.c.turns).label("turns"), last_at_ms)
        .where(sessions.c.namespace == namespace)
        .group_by(sessions.c.session)
        .order_by(last_at_ms.desc(), sessions.c.session)
        .limit(most)
    )
    return [
        ArchivedSession(SessionId(row.session), int(row.turns), row.last_at_ms)
        for row in connection.execute(wanted)
    ]


def read_memories(
    connection: Connection, namespace: Namespace, after: int, most: int
) -> list[tuple[int, Memory]]:
    """Memories after a cursor, in the order they became visible."""
    wanted = (
        select(memories)
        .where(memories.c.namespace == namespace, memories.c.cursor > after)
        .order_by(memories.c.cursor)
        .limit(most)
    )
    rows = connection.execute(wanted)
    return [(row.cursor, memory_from(opened_row(connection, memories, row))) for row in rows]


def read_generation(connection: Connection, namespace: Namespace) -> int:
    """How often memories of the namespace were deleted."""
    wanted = select(namespaces.c.memory_generation).where(namespaces.c.namespace == namespace)
    return connection.execute(wanted).scalar() or 0
