"""``SqlArchive``: where turns covered by a compaction go, and every context that was committed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.sealing import Cipher
from turnmill.contract.trajectory import TurnState
from turnmill_worker.archive import database, lost_branches, memories, reads, removal, writes
from turnmill_worker.archive.database import Database
from turnmill_worker.archive.rows import ArchivedSession, ManagedView, epoch_number
from turnmill_worker.failover.branches import LostBranch, Tip
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    Drain,
    Emptied,
    Erasure,
    Fork,
    Gone,
    Mark,
    Memory,
    Removed,
    SessionRef,
)


class SqlArchive(Database):
    """The archive in SQLite or PostgreSQL; any number of processes and threads may share it.

    Connections do not survive a fork: open it in the process that uses it. Every method raises
    ``ArchiveUnavailable`` when the same call may succeed later, and ``ArchiveFailed`` when not;
    neither quotes what is stored. With ``epoch=None`` reads are of a session's newest incarnation.
    """

    def drain(self, drains: Mapping[SessionRef, Drain]) -> None:
        """Store what sessions of one namespace left, and set aside what their marks say.

        All or nothing, durably, in one transaction; what is there already stays as it is.

        Raises:
            ArchiveDiverged: what is there at a position is not what the drain has.
        """
        if drains:
            with self._write() as connection:
                writes.drain(connection, drains)

    def store(self, ref: SessionRef, epoch: str, batch: Batch) -> None:
        """Store the batch, all or nothing, durably; what is there already stays as it is."""
        number = epoch_number(epoch)
        if batch == Batch():
            return
        with self._write() as connection:
            writes.store(connection, [writes.Kept(ref, number, batch)])

    def tip(self, ref: SessionRef) -> Tip | None:
        """The newest turn and commit of the newest incarnation; None when there is none."""
        with self._read() as connection:
            number = reads.newest_epoch(connection, ref)
            return None if number is None else lost_branches.read_tip(connection, ref, number)

    def tips(
        self, namespace: Namespace, among: Sequence[SessionId] | None = None
    ) -> dict[SessionId, Tip]:
        """The same without the commit's id, of every session of the namespace, or ``among``."""
        with self._read() as connection:
            return lost_branches.read_tips(connection, namespace, among)

    def lose(
        self, ref: SessionRef, tip: Tip, now: Batch, *, last_seq: int, version: int
    ) -> LostBranch | None:
        """Keep what contradicts ``now``, or comes after these, as a branch; None for nothing.

        Nothing is done if ``tip`` is no longer the newest there is: ``now`` may be outdated.
        """
        number = epoch_number(tip.epoch)
        with self._write() as connection:
            if lost_branches.read_tip(connection, ref, number) != tip:
                return None
            seq, commit = lost_branches.parting(connection, ref, number, now)
            after = (last_seq + 1, version + 1)
            at = (min(seq or after[0], after[0]), min(commit or after[1], after[1]))
            return lost_branches.lose(connection, ref, number, at)

    def branches(self, ref: SessionRef, *, epoch: str | None = None) -> list[LostBranch]:
        """What is kept of states of the incarnation that Redis lost."""
        with self._read() as connection:
            number = self._epoch(connection, ref, epoch)
            return [] if number is None else lost_branches.read_branches(connection, ref, number)

    def lost(self, namespace: Namespace) -> dict[SessionId, int]:
        """How many such branches each session has, of all its incarnations; none is left out."""
        with self._read() as connection:
            return lost_branches.read_lost(connection, namespace)

    def mark(
        self, ref: SessionRef, epoch: str, *, after_seq: int, through_seq: int, state: TurnState
    ) -> int:
        """Set kept turns aside: they stay, marked; their memories go. Returns how many turns."""
        step = Mark(after_seq=after_seq, through_seq=through_seq, state=state)
        with self._write() as connection:
            return writes.mark(connection, ref, epoch_number(epoch), step)

    def turns(
        self,
        ref: SessionRef,
        *,
        epoch: str | None = None,
        first_seq: int = 1,
        last_seq: int | None = None,
    ) -> list[ArchivedTurn]:
        """The session's turns by seq, both ends included, also those set aside."""
        with self._read() as connection:
            number = self._epoch(connection, ref, epoch)
            if number is None:
                return []
            return reads.read_turns(connection, ref, number, first_seq, last_seq)

    def compactions(self, ref: SessionRef, *, epoch: str | None = None) -> list[ArchivedCompaction]:
        """The session's compactions by version."""
        with self._read() as connection:
            number = self._epoch(connection, ref, epoch)
            return [] if number is None else reads.read_compactions(connection, ref, number)

    def context(
        self, ref: SessionRef, *, version: int, epoch: str | None = None
    ) -> ArchivedCompaction | None:
        """The compaction that committed this version, or None."""
        with self._read() as connection:
            number = self._epoch(connection, ref, epoch)
            if number is None:
                return None
            return next(iter(reads.read_compactions(connection, ref, number, version)), None)

    def views(self, ref: SessionRef, *, epoch: str | None = None) -> list[ManagedView]:
        """How the session's managed contexts were made, by version."""
        with self._read() as connection:
            number = self._epoch(connection, ref, epoch)
            return [] if number is None else reads.read_views(connection, ref, number)

    def blobs(self, namespace: Namespace, hashes: Sequence[str]) -> dict[str, Blob]:
        """The images among these that the archive has, by hash."""
        with self._read() as connection:
            return reads.read_blobs(connection, namespace, hashes)

    def sessions(self, namespace: Namespace, *, most: int = 1000) -> list[ArchivedSession]:
        """Sessions with something in the archive, the one last written to first."""
        with self._read() as connection:
            return reads.read_sessions(connection, namespace, most)

    def remember(self, namespace: Namespace, memory: Memory, *, most: int | None = None) -> bool:
        """Keep a memory an agent pushed; False when its id is there already.

        Raises:
            QuotaExceeded: agents have pushed ``most`` already.
        """
        with self._write() as connection:
            return memories.remember(connection, namespace, memory, most)

    def memories(
        self, namespace: Namespace, *, after: int = 0, most: int = 1000
    ) -> list[tuple[int, Memory]]:
        """Memories after a cursor, each with its own cursor, in the order they became visible.

        A reader begins at 0 and goes on after the last cursor it saw. A memory with a known id
        replaces the earlier one. When ``memory_generation`` changes, the reader begins again.
        """
        with self._read() as connection:
            return reads.read_memories(connection, namespace, after, most)

    def memory_generation(self, namespace: Namespace) -> int:
        """Raised whenever memories of the namespace were deleted."""
        with self._read() as connection:
            return reads.read_generation(connection, namespace)

    def forget(self, ref: SessionRef) -> Removed:
        """Delete the session in every incarnation, its memories, and images only it shows."""
        with self._write() as connection:
            removed = removal.remove(connection, ref)
        self._scrub()
        return removed

    def forget_epochs(
        self, ref: SessionRef, *, through_epoch: str, but: str | None = None
    ) -> Removed:
        """Delete the session's incarnations up to this one in the same way; ``but`` one stays."""
        through, kept = epoch_number(through_epoch), None if but is None else epoch_number(but)
        with self._write() as connection:
            removed = removal.remove(connection, ref, through_epoch=through, but=kept)
        self._scrub()
        return removed

    def left(self, ref: SessionRef) -> Removed:
        """How many rows of the session are there: ``Removed()`` proves that it was forgotten."""
        with self._read() as connection:
            return removal.count(connection, ref)

    def prune(self, *, older_than_ms: int, namespace: Namespace | None = None) -> Removed:
        """Forget sessions whose newest turn or compaction is older; one transaction for each."""
        with self._read() as connection:
            old = removal.older(connection, older_than_ms, namespace)
        removed = Removed()
        for ref in old:
            with self._write() as connection:
                one = removal.remove(connection, ref, older_than_ms=older_than_ms)
            removed += one
        self._scrub()
        return removed

    def epochs(self, ref: SessionRef) -> dict[str, str]:
        """The session's incarnations, oldest first, each after what Redis lost of it.

        By epoch; for what was lost, the epoch it was taken from.
        """
        with self._read() as connection:
            return removal.read_epochs(connection, ref)

    def pushed_memories(self, namespace: Namespace) -> list[tuple[str, str]]:
        """Ids and texts of the memories that agents pushed to the namespace."""
        with self._read() as connection:
            return removal.read_pushed(connection, namespace)

    def erase(
        self, ref: SessionRef, epoch: str, emptied: Emptied, *, dry_run: bool = False
    ) -> Gone:
        """Erase turns of one incarnation, and what was made of them; ``dry_run`` only counts.

        What a drain has read of Redis already is stored by it no more.
        """
        number = epoch_number(epoch)
        with self._write() as connection:
            gone = removal.erase(connection, ref, number, emptied)
            if dry_run:
                connection.rollback()
        return gone

    def note_erasure(self, namespace: Namespace, erasure: Erasure) -> None:
        """Keep the record of an erasure; once more replaces it."""
        with self._write() as connection:
            removal.note_erasure(connection, namespace, erasure)

    def erasures(self, namespace: Namespace, session: SessionId | None = None) -> list[Erasure]:
        """The records of erasures, oldest first, of one session or all."""
        with self._read() as connection:
            return removal.read_erasures(connection, namespace, session)

    def note_fork(self, ref: SessionRef, epoch: str, fork: Fork) -> None:
        """Keep that a session has turns of this one, and of those that this one has turns of."""
        with self._write() as connection:
            removal.note_fork(connection, ref, epoch_number(epoch), fork)

    def forks(self, ref: SessionRef) -> list[Fork]:
        """Sessions that have turns of this one, or were to have some."""
        with self._read() as connection:
            return removal.read_forks(connection, ref)

    def drop(self, ref: SessionRef, epoch: str) -> None:
        """Delete one incarnation of the session: it never began."""
        with self._write() as connection:
            removal.remove(connection, ref, only=epoch_number(epoch))

    def rewrite(self) -> bool:
        """Write the database's files anew, without old bytes; False if it could not be done now."""
        return database.rewrite(self._engine)

    @staticmethod
    def _epoch(connection: Connection, ref: SessionRef, epoch: str | None) -> int | None:
        return reads.newest_epoch(connection, ref) if epoch is None else epoch_number(epoch)


if TYPE_CHECKING:
    _Base = SqlArchive
else:
    _Base = object


class LazyArchive(_Base):
    """A ``SqlArchive`` whose first call opens it; a failed opening is tried again by the next.

    Every method raises what ``SqlArchive.open`` and the method itself raise.
    """

    def __init__(self, url: str, cipher: Cipher | None = None) -> None:
        self._url = url
        self._cipher = cipher
        self._opened: SqlArchive | None = None
        self._opening = threading.Lock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._open(), name)

    def _open(self) -> SqlArchive:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = SqlArchive.open(self._url, self._cipher)
                except OSError as error:
                    # The folder of a SQLite file cannot be used now; it may be mounted later.
                    raise ArchiveUnavailable(
                        f"archive: its folder cannot be used ({type(error).__name__})"
                    ) from error
            return self._opened
