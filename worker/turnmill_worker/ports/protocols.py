"""What the pipeline needs from outside: seams to Redis, archive, models and other workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from turnmill.contract.codec import encode_json
from turnmill.contract.context import StoredContext
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.results import Waits
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.errors import SummarizerFailed, SummarizerUnavailable
from turnmill_worker.failover.branches import LostBranch, Tip
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Begun,
    Blob,
    Cleansed,
    Committed,
    CountedTurn,
    Counts,
    Drain,
    Emptied,
    Erasure,
    Failed,
    Fork,
    Gone,
    Memory,
    RecordedCounts,
    Removed,
    Restored,
    SessionInRedis,
    SessionRef,
    Summary,
    Uncounted,
)
from turnmill_worker.reading.known import Known
from turnmill_worker.spending import NOTHING, Spent


class Hints(Protocol):
    """Tells workers to look at a session; best effort."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when that failed, which the sweep will repair."""

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue."""


class Waiting(Protocol):
    """The sessions that wait for a summary, over all namespaces."""

    def add(self, ref: SessionRef, *, room: float) -> int:
        """Let the session wait; the one with the smallest share of its ``room`` left comes first.

        A session that has waited for long comes before one with less room. Returns 0 when it did
        not wait before, else how many sessions wait, at least.
        """

    def take(self) -> SessionRef | None:
        """The session whose turn it is; namespaces take turns. None when none waits."""


class Gate(Protocol):
    """Says when a model may be asked: for all workers together, one per endpoint and model."""

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        """The round of a call that may be made now; None when Redis could not be asked.

        ``tokens`` is what it will probably be billed; it answers or fails ``within_s``.

        Raises:
            CircuitOpen, RateLimited: not now; say when it is worth asking again.
        """

    def place(self, *, within_s: float) -> AbstractContextManager[Callable[[], object]]:
        """A place among the calls that are under way at the endpoint, for as long as it is held.

        It is given to others after ``within_s``, unless what this gives is called before.

        Raises:
            RateLimited: all are taken.
        """

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        """The call was answered, and billed ``used`` tokens."""

    def failed(
        self, round_: int | None, error: SummarizerUnavailable | SummarizerFailed, *, estimated: int
    ) -> None:
        """The call failed, and the endpoint is to blame."""


Gates = Callable[[str, str], Gate]
"""Gives the gate before a model, by the endpoint's URL, which may hold secrets, and the model."""


def place_of(url: str) -> str:
    """Host, port and path of an endpoint: no user, password or query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname or ''}{port}{parts.path.rstrip('/')}"


class Summarizer(Protocol):
    """Turns a request into a text; the only thing that may call a model."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A text of at most ``request.budget_tokens`` by this counter, and what it cost.

        Raises:
            Transient: the same request may succeed later.
            SummaryRejected: it will not; use the next rung of the ladder.
        """


Summarizers = Callable[[Policy], Sequence[Summarizer]]
"""Gives the summarizers a policy asks for: at least one, in the order they are to be tried."""


class AwaitedSummary(BaseModel):
    """A request that was handed in at an endpoint, and how to know its answer again.

    Attributes:
        batch, file: the endpoint's names for the batch and for the file it was made from.
        nonce: the code of the request's marks.
        model: the model that was asked.
        summarizer: the registered name of the summarizer that asked; older notes have none, and
            are of the only one that took batches then.
        digest: of the request.
        epoch, revision, version, counted_seq: of the session when the request was planned.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, populate_by_name=True
    )

    batch: str
    file: str
    nonce: str
    model: str
    digest: str
    summarizer: str = "openai"
    epoch: str = ""
    revision: str = Field(default="", alias="settings")
    version: int = 0
    counted_seq: Seq = Seq(0)

    def of(self, snapshot: Snapshot) -> AwaitedSummary:
        """The same, planned from this snapshot."""
        return self.model_copy(
            update={
                "epoch": snapshot.epoch,
                "revision": snapshot.revision,
                "version": int(snapshot.version),
                "counted_seq": snapshot.counted_seq,
            }
        )

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the session is still at the version, and has the policy, it was planned for."""
        return (self.epoch, self.revision, self.version) == (
            snapshot.epoch,
            snapshot.revision,
            snapshot.version,
        )


def digest(request: SummaryRequest) -> str:
    """A digest, equal for two requests exactly if they are equal."""
    earlier = request.digest.known.stored() if request.digest else {}
    fields = asdict(replace(request, digest=None)) | {"known": earlier}
    return hashlib.sha256(encode_json(fields)).hexdigest()


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """The batch a session awaits, as it is remembered.

    Attributes:
        note: the same as it is stored.
        age_s: seconds since it was handed in.
    """

    awaited: AwaitedSummary
    note: bytes
    age_s: float


class BatchEndpoint(Protocol):
    """Where batches are handed in."""

    def submit(
        self, policy: Policy, request: SummaryRequest, counter: Counter
    ) -> AwaitedSummary | None:
        """Hand the request in; None when it cannot be asked in a batch.

        Raises:
            Transient, SummarizerFailed: the endpoint did not take it.
            SummaryRejected: there is nothing to ask.
        """

    def poll(self, policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """A summarizer that has the answer, or None while there is none.

        Raises:
            Transient: the endpoint cannot be asked now.
            SummarizerFailed: there will be no answer.
        """

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """What it has cost by now, if the endpoint can be asked and tells."""

    def discard(self, awaited: AwaitedSummary) -> None:
        """End it, and remove what the endpoint keeps of it, if the endpoint can be asked."""


class BatchNotes(Protocol):
    """Remembers which batches sessions await."""

    def remember(self, ref: SessionRef, awaited: AwaitedSummary) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""

    def remembered(self, ref: SessionRef) -> RememberedBatch | None:
        """The awaited batch, and for how long it has been awaited."""

    def drop(self, ref: SessionRef, batch: RememberedBatch, spent: Spent = NOTHING) -> bool:
        """Drop the note; what was ``spent`` counts for the next commit. False when it was gone."""

    def has_orphan(self, ref: SessionRef) -> bool:
        """Whether a forgotten session of this session's shard awaited a batch."""

    def take_orphan(self, ref: SessionRef) -> AwaitedSummary | None:
        """Take a batch that a forgotten session of this session's shard awaited; each only once."""


class Lease(Protocol):
    """The right to compact one session, renewed while it is held."""

    @property
    def owner(self) -> str:
        """What tells this lease from all others."""

    def release(
        self, seen: Snapshot, *, spent: Spent | None = None, idle_s: float | None = None
    ) -> bool:
        """Give the lease up, nothing done; True when the session changed and is due at once.

        ``spent`` on models since the last commit is kept for the next one's record. After
        ``idle_s`` without a push it is due again.
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

    def record_counts(self, ref: SessionRef, seen: Uncounted, counts: Counts) -> RecordedCounts:
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

    def past(self, ref: SessionRef) -> SessionInRedis | None:
        """What a rollback is planned from; None for an unknown session."""

    def hold(self, ref: SessionRef, epoch: str, images: Iterable[Blob]) -> bool:
        """Let Redis hold these images for the session; False when it was forgotten meanwhile."""

    def restore(self, ref: SessionRef, past: SessionInRedis, state: Restored) -> tuple[int, int]:
        """Restore it, if nothing was committed meanwhile; the new version or 0, and turns lost."""

    def fork(self, past: SessionInRedis, begun: Begun) -> bool:
        """Begin the session; False when there is one, or the parent is not what it was."""

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""

    def note_fork(self, ref: SessionRef, fork: Fork) -> None:
        """Keep that a session has turns of this one, where no archive does."""

    def drop_fork(self, ref: SessionRef, fork: Fork) -> None:
        """Drop the note: it never began."""

    def forks(self, ref: SessionRef) -> list[Fork]:
        """The sessions noted so."""

    def erase(self, ref: SessionRef, past: SessionInRedis, left: Cleansed) -> int:
        """Write it, if nothing was committed meanwhile; the new version or 0."""

    def now_ms(self) -> int:
        """The time by the clock that turns have theirs from."""


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


class Outgoing(Protocol):
    """What left the log and is not in the archive yet; and what it is compared with."""

    def uncompared(self, namespace: Namespace) -> str:
        """The run that its archive is to be compared with; ``""`` when that is done."""

    def compared(self, namespace: Namespace, run: str) -> None:
        """Its archive was compared with this run."""

    def positions(self, namespace: Namespace) -> Iterator[Mapping[SessionId, Tip]]:
        """How far the namespace's sessions have come in Redis, some in each step."""

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

    def store(self, ref: SessionRef, epoch: str, batch: Batch) -> None:
        """Store the batch, all or nothing, durably; what is there already stays as it is."""

    def note_fork(self, ref: SessionRef, epoch: str, fork: Fork) -> None:
        """Keep that a session has turns of this one, and of those that this one has turns of."""

    def forks(self, ref: SessionRef) -> list[Fork]:
        """Sessions that have turns of this one, or were to have some."""

    def drop(self, ref: SessionRef, epoch: str) -> None:
        """Delete one incarnation of the session: it never began."""

    def rewrite(self) -> bool:
        """Write the database's files anew, without old bytes; False if it could not be done now."""

    def memories(self, namespace: Namespace, *, after: int, most: int) -> list[tuple[int, Memory]]:
        """Memories after a cursor, each with its own, in the order they became visible."""

    def memory_generation(self, namespace: Namespace) -> int:
        """Raised whenever memories were deleted."""
