"""What drains store; each function runs inside its caller's transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, delete, select, update

from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.names import Namespace
from turnmill_worker.archive import memories as making
from turnmill_worker.archive.lost_branches import differs
from turnmill_worker.archive.memories import (
    Dated,
    insert_memories,
    memories_were_deleted,
    next_position,
    replace_summaries,
)
from turnmill_worker.archive.rows import (
    chunks,
    compaction_row,
    epoch_number,
    insert,
    insert_absent,
    insert_new,
    lock,
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
    sessions,
    turns,
)
from turnmill_worker.ports.protocols import ArchiveDiverged
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Drain,
    Mark,
    SessionRef,
)


class Kept(NamedTuple):
    """What is kept of one incarnation of a session."""

    ref: SessionRef
    epoch: int
    batch: Batch


def drain(connection: Connection, drains: Mapping[SessionRef, Drain]) -> None:
    """Store what sessions of one namespace left, each session's steps in their order.

    Raises:
        ArchiveUnavailable: it is too late for one of them.
    """
    epochs = {ref: epoch_number(each.epoch) for ref, each in drains.items()}
    for wave in zip_longest(*(each.steps for each in drains.values())):
        found = list(zip(drains, wave, strict=True))
        kept = [Kept(ref, epochs[ref], step) for ref, step in found if isinstance(step, Batch)]
        if kept:
            store(connection, kept)
        for ref, step in found:
            if isinstance(step, Mark):
                mark(connection, ref, epochs[ref], step)
    # The last step: who removes a forgotten session waits for this transaction's lock, and comes
    # again after this moment.
    if time.monotonic() > min(each.until_s for each in drains.values()):
        raise ArchiveUnavailable("archive: storing took too long")


def store(connection: Connection, kept: Sequence[Kept]) -> None:
    """Insert what one namespace does not have yet; only what is new leaves memories.

    Raises:
        ArchiveDiverged: at a position that is new to no session, it has something else.
    """
    namespace = kept[0].ref.namespace
    lock(connection, namespace)
    new_turns = _insert_turns(connection, kept)
    new_compactions = _insert_compactions(connection, kept)
    other = [
        ref
        for (ref, epoch, batch), said, done in zip(kept, new_turns, new_compactions, strict=True)
        if (len(said), len(done)) != (len(batch.turns), len(batch.compactions))
        and differs(connection, ref, epoch, batch)
    ]
    if other:
        raise ArchiveDiverged(other)
    _insert_blobs(connection, namespace, kept)
    _touch(connection, kept, new_turns)
    made: list[Dated] = []
    newest = []
    for (ref, epoch, _), said, committed in zip(kept, new_turns, new_compactions, strict=True):
        first = next_position(connection, ref, epoch) if said else 0
        made += [(epoch, one) for one in making.of_turns(ref, str(epoch), said, first=first)]
        for compaction in committed:
            made += [(epoch, one) for one in making.of_events(ref, str(epoch), compaction)]
        if committed:
            newest.append((ref, epoch, max(committed, key=lambda each: each.version)))
    insert_memories(connection, namespace, made)
    replace_summaries(connection, namespace, newest)


def mark(connection: Connection, ref: SessionRef, epoch: int, step: Mark) -> int:
    """Set kept turns aside, and forget their memories; returns the number of turns."""
    lock(connection, ref.namespace)
    aside = update(turns).where(
        of(turns, ref, epoch),
        turns.c.seq > step.after_seq,
        turns.c.seq <= step.through_seq,
        turns.c.state == "kept",
    )
    values = {"state": step.state, "aside_by": step.by or None}
    marked = connection.execute(aside.values(values)).rowcount
    if step.state != "kept":
        # A rolling summary's origin is a version; the commit of the rollback replaces it.
        gone = delete(memories).where(
            of(memories, ref, epoch),
            memories.c.origin > step.after_seq,
            memories.c.origin <= step.through_seq,
            memories.c.id != f"{ref.session}:{epoch}:summary",
        )
        if connection.execute(gone).rowcount:
            memories_were_deleted(connection, ref.namespace)
    return marked


def _insert_turns(connection: Connection, kept: Sequence[Kept]) -> list[list[ArchivedTurn]]:
    """Those that are new, of each."""
    rows = [
        session_row(ref, epoch) | turn_row(turn)
        for ref, epoch, batch in kept
        for turn in batch.turns
    ]
    new = insert_new(connection, turns, ("session", "epoch", "seq"), rows)
    # A turn that came back to the log before it was archived leaves it twice: the first counts.
    added = [
        [turn for turn in reversed(once.values()) if (ref.session, epoch, turn.seq) in new]
        for ref, epoch, batch in kept
        for once in ({turn.seq: turn for turn in reversed(batch.turns)},)
    ]
    # Of those that were there nothing is added: what an erasure took from them must not come back.
    refs = [
        session_row(ref, epoch) | {"seq": turn.seq, "place": place, "sha256": sha256}
        for (ref, epoch, _), own in zip(kept, added, strict=True)
        for turn in own
        for place, sha256 in enumerate(turn.blobs)
    ]
    insert_absent(connection, blob_refs, refs)
    return added


def _insert_compactions(
    connection: Connection, kept: Sequence[Kept]
) -> list[list[ArchivedCompaction]]:
    """Those that are new, of each."""
    rows = [
        session_row(ref, epoch) | compaction_row(each)
        for ref, epoch, batch in kept
        for each in batch.compactions
    ]
    new = insert_new(connection, compactions, ("session", "epoch", "version"), rows)
    added = [
        [each for each in batch.compactions if (ref.session, epoch, each.version) in new]
        for ref, epoch, batch in kept
    ]
    views = [
        session_row(ref, epoch) | row
        for (ref, epoch, _), own in zip(kept, added, strict=True)
        for row in map(view_row, own)
        if row is not None
    ]
    insert_absent(connection, managed_views, views)
    return added


def _insert_blobs(connection: Connection, namespace: Namespace, kept: Sequence[Kept]) -> None:
    shown = {blob.sha256: blob for each in kept for blob in each.batch.blobs}
    # Only images that something refers to: others would never be released.
    wanted: set[str] = set()
    for hashes in chunks(shown):
        referred = select(blob_refs.c.sha256).where(
            blob_refs.c.namespace == namespace, blob_refs.c.sha256.in_(hashes)
        )
        wanted.update(connection.execute(referred).scalars())
    rows = [
        {
            "namespace": namespace,
            "sha256": sha256,
            "media_type": blob.media_type,
            "data": blob.data,
        }
        for sha256, blob in shown.items()
        if sha256 in wanted
    ]
    insert_absent(connection, blobs, rows)


def _touch(
    connection: Connection, kept: Sequence[Kept], new_turns: Sequence[Sequence[ArchivedTurn]]
) -> None:
    rows = []
    for (ref, epoch, batch), new in zip(kept, new_turns, strict=True):
        moments = [turn.at_ms for turn in batch.turns]
        moments += [compaction.at_ms for compaction in batch.compactions]
        numbers = {"turns": len(new), "last_at_ms": max(moments, default=0)}
        rows.append(session_row(ref, epoch) | numbers)
    connection.execute(_touching(connection.dialect.name), rows)


@cache
def _touching(dialect: str) -> Any:
    statement = insert(dialect, sessions)
    excluded = statement.excluded
    later = case(
        (sessions.c.last_at_ms < excluded.last_at_ms, excluded.last_at_ms),
        else_=sessions.c.last_at_ms,
    )
    return statement.on_conflict_do_update(
        index_elements=["namespace", "session", "epoch"],
        set_={"turns": sessions.c.turns + excluded.turns, "last_at_ms": later},
    )
