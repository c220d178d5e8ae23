"""The sessions as the pipeline sees them: what it loads, leases and commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal, Protocol

from turnmill.contract.context import StoredContext
from turnmill.contract.info import Waits
from turnmill.contract.job_outcomes import Compaction
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.ports.erasure import Cleansed
from turnmill_worker.ports.past import Past, Restored
from turnmill_worker.ports.records import Blob
from turnmill_worker.ports.values import (
    Committed,
    CountedTurn,
    Counts,
    Failed,
    Recorded,
    SessionRef,
    Uncounted,
)
from turnmill_worker.reading.known import Known
from turnmill_worker.spending import Spent

__all__ = ["BatchLeft", "Claim", "Lease", "Refusal", "Sessions", "States"]


class Lease(Protocol):
    """The right to compact one session, renewed while it is held."""

    @property
    def owner(self) -> str:
        """What tells this lease from all others."""

    def release(self, seen: Snapshot, *, spent: Spent | None = None) -> bool:
        """Give the lease up, nothing done; True when the session changed and is due at once.

        ``spent`` on models since the last commit is kept for the next one's record.
        """

    def put_off(self, seen: Snapshot, *, until_tokens: int, spent: Spent | None = None) -> bool:
        """As ``release``, and the session is not due again below ``until_tokens``."""

    def retry(
        self,
        *,
        after_s: float,
        spent: Spent | None = None,
        stale: bool = False,
        waits: Waits | None = None,
    ) -> None:
        """Give the lease up; the session is due again after that many seconds.

        ``stale`` counts a summary that was written for nothing; ``waits`` says what the next one
        waits for, which ``info`` tells.
        """

    def defer(
        self, seen: Snapshot, *, after_s: float, spent: Spent, failed: Sequence[str] = ()
    ) -> bool:
        """As ``retry``, to wait for a model; True when there is no room to: it is due at once.

        Until then no lease is given, unless the session becomes urgent. ``failed`` says why.
        """


Refusal = Literal["leased", "unknown", "deferred", "parked"]
"""Why a session may not be compacted now."""


BatchLeft = Literal["own", "orphaned"]
"""Who awaited a batch to look after: the session, or forgotten sessions of its shard."""


class Claim(Protocol):
    """Asks for a lease, and holds it for a ``with`` block."""

    @property
    def refusal(self) -> Refusal:
        """Why there was no lease."""

    @property
    def batches(self) -> frozenset[BatchLeft]:
        """The batches to look after, useful or not; known once the lease was asked for."""

    def __enter__(self) -> Lease | None:
        """The lease, or None."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Renew the lease no longer."""


class Sessions(Protocol):
    """The sessions in Redis."""

    def uncounted(self, ref: SessionRef, *, most: int) -> Uncounted | None:
        """The oldest uncounted turns, at most ``most``; None for an unknown session."""

    def overdue(self, ref: SessionRef, *, most: int) -> list[SessionRef]:
        """Sessions of the same shard that wait to be counted, the longest first."""

    def record_counts(self, ref: SessionRef, seen: Uncounted, counts: Counts) -> Recorded:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile.

        A session that is due and urgent waits for no model any longer.
        """

    def recount(
        self,
        ref: SessionRef,
        seen: Uncounted,
        snapshot: Snapshot,
        *,
        basis: str,
        system_tokens: int,
        tools_tokens: int,
        context_tokens: int,
        turns: Sequence[CountedTurn],
    ) -> bool:
        """Replace all counts made under another basis; False when the session changed."""

    def snapshot(self, ref: SessionRef) -> Snapshot | None:
        """An immutable view of the session; None for an unknown one."""

    def covered(
        self, ref: SessionRef, epoch: str, *, first_seq: int, last_seq: int
    ) -> tuple[LoggedTurn, ...]:
        """Turns that left the log, from Redis and the archive, by seq."""

    def lease(self, ref: SessionRef, *, forced: bool = False) -> Claim:
        """The right to compact the session; ``forced`` also while it waits or is parked."""

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        known: Known,
        owner: str,
        record: Compaction,
        detail: bytes = b"",
    ) -> Committed:
        """Write the context if nobody else committed since ``snapshot.before`` was loaded.

        ``known`` is what is kept of the covered turns after the commit.
        """

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Let the sweep look at a session in the backlog later."""

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed; due again later, or parked after too many in a row."""


class States(Protocol):
    """Earlier states of sessions in Redis, and the way back to them."""

    def past(self, ref: SessionRef) -> Past | None:
        """What a rollback is planned from; None for an unknown session."""

    def hold(self, ref: SessionRef, epoch: str, images: Iterable[Blob]) -> bool:
        """Let Redis hold these images for the session; False when it was forgotten meanwhile."""

    def restore(self, ref: SessionRef, past: Past, state: Restored) -> tuple[int, int]:
        """Restore it, if nothing was committed meanwhile; the new version or 0, and turns lost."""

    def erase(self, ref: SessionRef, past: Past, left: Cleansed) -> int:
        """Write it, if nothing was committed meanwhile; the new version or 0."""

    def now_ms(self) -> int:
        """The time by the clock that turns have theirs from."""
