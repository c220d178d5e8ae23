"""Where turns go when they leave the log, and what finds them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.results import GroundedContext
from turnmill.contract.trajectory import TurnState
from turnmill_worker.ports.records import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    Memory,
    Removed,
)
from turnmill_worker.ports.values import Drain, SessionRef

__all__ = ["Archive", "Memories", "Outgoing"]


class Outgoing(Protocol):
    """What left the log and is not in the archive yet."""

    def next_drain(self, ref: SessionRef, *, most: int) -> Drain | None:
        """The oldest entries; None when there are none."""

    def trim(self, ref: SessionRef, drain: Drain) -> Literal["more", "done", "forgotten"]:
        """Trim what is archived now; says whether there is more, or the session was forgotten."""

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""

    def forgotten(self, namespace: Namespace) -> list[tuple[SessionId, int]]:
        """Sessions to remove from the archive, with the time they were forgotten, in µs."""

    def forgotten_done(self, ref: SessionRef, at_us: int, *, settled: bool) -> None:
        """The archive has none of it; unless ``settled``, look again after any late drains."""


class Archive(Protocol):
    """Where turns go when they leave the log."""

    def store(self, ref: SessionRef, epoch: str, batch: Batch) -> None:
        """Keep all of it; a second time changes nothing.

        Raises:
            ArchiveUnavailable: nothing was stored; try again later.
        """

    def mark(
        self, ref: SessionRef, epoch: str, *, after_seq: int, through_seq: int, state: TurnState
    ) -> int:
        """Mark turns that were set aside after they were archived."""

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

    def forget_epochs(self, ref: SessionRef, *, through_epoch: str) -> Removed:
        """Remove the session's incarnations up to this one."""

    def remember(self, namespace: Namespace, memory: Memory) -> bool:
        """Keep a memory an agent pushed; False when it was there."""


class Memories(Protocol):
    """Finds what a namespace remembers."""

    def search(
        self, namespace: Namespace, query: str, k: int, session: SessionId | None = None
    ) -> GroundedContext:
        """The best ``k`` memories for a query, of all sessions or of one."""
