"""Where turns go when they leave the log, and what finds them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.results import GroundedContext
from turnmill_worker.ports.erasure import Emptied, Erasure, Gone
from turnmill_worker.ports.records import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    LostBranch,
    Memory,
    Removed,
    Tip,
)
from turnmill_worker.ports.values import Drain, SessionRef

__all__ = ["DRAIN_WITHIN_S", "Archive", "ArchiveDiverged", "Left", "Memories", "Outgoing", "Runs"]

Left = Literal["more", "done", "gone", "forgotten", "lost"]
"""Of a session after a drain: more entries, none, or the drained ones were gone.

Or the session was gone: forgotten by somebody, or lost with Redis; an expired one counts as lost.
"""

DRAIN_WITHIN_S = 50.0
"""What was read of Redis longer ago is not stored: the session may be forgotten by now.

Longer than a writer waits for the database, and shorter than the archive is kept free of it.
"""


class ArchiveDiverged(Exception):
    """Of these sessions the archive has other turns or commits at the same positions.

    Redis returned to an earlier state; or the drain is of the state that it lost. Nothing was
    stored: read Redis again, and ``lose`` the other.
    """

    def __init__(self, refs: Sequence[SessionRef]) -> None:
        super().__init__(f"archive: {len(refs)} sessions have another past in Redis")
        self.refs = refs


class Runs(Protocol):
    """Which namespaces' archives are to be compared with a run of Redis."""

    def uncompared(self, namespace: Namespace) -> str:
        """The run that its archive is to be compared with; ``""`` when that is done."""

    def compared(self, namespace: Namespace, run: str) -> None:
        """Its archive was compared with this run."""

    def positions(self, namespace: Namespace) -> Iterator[Mapping[SessionId, Tip]]:
        """How far the namespace's sessions have come in Redis, some in each step."""


class Outgoing(Runs, Protocol):
    """What left the log and is not in the archive yet."""

    def waiting(self, namespace: Namespace, *, most: int) -> list[SessionRef]:
        """Sessions with something to archive, the longest waiting first; up to ``most`` a shard."""

    def next_drains(
        self, refs: Sequence[SessionRef], *, turns: int, size: int
    ) -> dict[SessionRef, Drain]:
        """The oldest entries of each that has any.

        Up to ``turns`` turns and as many commits of each, and about ``size`` bytes.
        """

    def trim(self, drains: Mapping[SessionRef, Drain]) -> dict[SessionRef, Left]:
        """Trim what is archived now; says what is left of each."""

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""

    def forgotten(self, ref: SessionRef) -> list[int]:
        """When the session was forgotten, in µs, as long as the archive may have some of it."""

    def incarnation(self, ref: SessionRef) -> str | None:
        """The epoch of the session that Redis has now; None for none."""

    def forgotten_done(self, ref: SessionRef, at_us: int, *, settled: bool) -> None:
        """The archive has none of it; unless ``settled``, look again after any late drains."""


class Archive(Protocol):
    """Where turns go when they leave the log."""

    def drain(self, drains: Mapping[SessionRef, Drain]) -> None:
        """Keep all that sessions of one namespace left, in one transaction; again changes nothing.

        Raises:
            ArchiveUnavailable: nothing was stored, or it took too long; try again later.
            ArchiveDiverged: nothing was stored; ``lose`` what these sessions have lost first.
        """

    def tip(self, ref: SessionRef) -> Tip | None:
        """The newest turn and commit of the newest incarnation; None when there is none."""

    def tips(self, namespace: Namespace, among: Sequence[SessionId]) -> dict[SessionId, Tip]:
        """The positions of those of these sessions that it has."""

    def lose(
        self, ref: SessionRef, tip: Tip, now: Batch, *, last_seq: int, version: int
    ) -> LostBranch | None:
        """Keep what contradicts ``now``, or comes after these, as a branch; None for nothing.

        Nothing is done if ``tip`` is no longer the newest there is: ``now`` may be outdated.
        """

    def branches(self, ref: SessionRef, *, epoch: str | None = None) -> list[LostBranch]:
        """What is kept of states of the incarnation that Redis lost."""

    def turns(
        self,
        ref: SessionRef,
        *,
        epoch: str | None = None,
        first_seq: int = 1,
        last_seq: int | None = None,
    ) -> list[ArchivedTurn]:
        """Turns by seq, of the newest incarnation when no epoch is given."""

    def compactions(self, ref: SessionRef, *, epoch: str | None = None) -> list[ArchivedCompaction]:
        """Commits by version."""

    def context(
        self, ref: SessionRef, *, version: int, epoch: str | None = None
    ) -> ArchivedCompaction | None:
        """One commit."""

    def blobs(self, namespace: Namespace, hashes: Sequence[str]) -> dict[str, Blob]:
        """The images with these sha256 that the archive has, by sha256."""

    def forget_epochs(
        self, ref: SessionRef, *, through_epoch: str, but: str | None = None
    ) -> Removed:
        """Remove the session's incarnations up to this one; ``but`` and its branches stay."""

    def remember(self, namespace: Namespace, memory: Memory, *, most: int | None = None) -> bool:
        """Keep a memory an agent pushed; False when it was there.

        Raises:
            QuotaExceeded: agents have pushed ``most`` already.
        """

    def epochs(self, ref: SessionRef) -> Mapping[str, str]:
        """The session's incarnations, oldest first, each after what Redis lost of it.

        By epoch; for what was lost, the epoch it was taken from.
        """

    def pushed_memories(self, namespace: Namespace) -> list[tuple[str, str]]:
        """Ids and texts of the memories that agents pushed to the namespace."""

    def erase(
        self, ref: SessionRef, epoch: str, emptied: Emptied, *, dry_run: bool = False
    ) -> Gone:
        """Erase turns of one incarnation, and what was made of them; ``dry_run`` only counts."""

    def note_erasure(self, namespace: Namespace, erasure: Erasure) -> None:
        """Keep the record of an erasure; once more replaces it."""

    def rewrite(self) -> bool:
        """Write the database's files anew, without old bytes; False if it could not be done now."""


class Memories(Protocol):
    """Finds what a namespace remembers."""

    def search(
        self, namespace: Namespace, query: str, k: int, session: SessionId | None = None
    ) -> GroundedContext:
        """The best ``k`` memories for a query, of all sessions or of one."""
