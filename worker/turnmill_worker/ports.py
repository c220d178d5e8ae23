"""What the pipeline needs from the outside, as protocols with only the methods it calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal, Protocol

from turnmill.contract.context import StoredContext
from turnmill.contract.info import Waits
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.outcomes import Compaction
from turnmill.contract.policy import Policy
from turnmill.contract.results import GroundedContext
from turnmill.contract.trajectory import TurnState
from turnmill_worker.compaction.ledger import Fact
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, SummaryRequest
from turnmill_worker.errors import SummarizerFailed, SummarizerUnavailable
from turnmill_worker.records import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    Memory,
    Removed,
)
from turnmill_worker.spending import Spent
from turnmill_worker.templates.template import Template
from turnmill_worker.values import (
    Committed,
    CountedTurn,
    Drain,
    Failed,
    Past,
    Recorded,
    Restored,
    SessionRef,
    Summary,
    Uncounted,
)

__all__ = [
    "Archive",
    "Claim",
    "Counter",
    "Counters",
    "Gate",
    "Gates",
    "Hints",
    "Lease",
    "Memories",
    "Outgoing",
    "Refusal",
    "Sessions",
    "States",
    "Summarizer",
    "Summarizers",
    "Templates",
    "Waiting",
]


class Counter(Protocol):
    """Counts tokens of text exactly, or says by its basis that it only estimates."""

    @property
    def basis(self) -> str:
        """The vocabulary and the version of the message formula."""

    def count(self, text: str) -> int:
        """Tokens of the text."""


class Counters(Protocol):
    """Gives the counter for a vocabulary."""

    def __call__(self, encoding: str, image_formula: str) -> Counter:
        """The counter for this encoding, or the best stand-in; pictures are priced as named."""


class Lease(Protocol):
    """The right to compact one session, renewed while it is held."""

    @property
    def owner(self) -> str:
        """What tells this lease from all others."""

    def release(self, seen: Snapshot, *, spent: Spent | None = None) -> bool:
        """Give it up, nothing to do; True when the session changed since, and is due at once.

        ``spent`` on models since the last commit is kept for the next one's record.
        """

    def put_off(self, seen: Snapshot, *, until_tokens: int, spent: Spent | None = None) -> bool:
        """As ``release``; and the session is not due again below so many tokens."""

    def retry(
        self,
        *,
        after_s: float,
        spent: Spent | None = None,
        stale: bool = False,
        waits: Waits | None = None,
    ) -> None:
        """Give it up; the session is due again after that many seconds.

        ``stale`` says that a summary was written for nothing, which is counted; ``waits`` what the
        next one waits for, which ``info`` tells.
        """

    def defer(
        self, seen: Snapshot, *, after_s: float, spent: Spent, failed: Sequence[str] = ()
    ) -> bool:
        """As ``retry``, waiting for a model; True when there is no room to, and it is due at once.

        Until then no lease is given, unless the session becomes urgent. ``failed`` says why.
        """


Refusal = Literal["leased", "unknown", "deferred", "parked"]
"""Why a session may not be compacted now."""


class Claim(Protocol):
    """Asks for a lease, and holds it for a ``with`` block."""

    @property
    def refusal(self) -> Refusal:
        """Why there was none."""

    @property
    def awaits(self) -> bool:
        """Whether the session awaits a batch, of use or not; known once it was asked for."""

    @property
    def abandons(self) -> bool:
        """Whether forgotten sessions of its shard awaited some that are to be ended."""

    def __enter__(self) -> Lease | None:
        """The lease, or None."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Renew it no longer."""


class Sessions(Protocol):
    """The sessions in Redis."""

    def uncounted(self, ref: SessionRef, *, most: int) -> Uncounted | None:
        """The oldest uncounted turns, at most ``most``; None for an unknown session."""

    def record_counts(
        self,
        ref: SessionRef,
        seen: Uncounted,
        *,
        basis: str,
        system_tokens: int,
        open_calls: Sequence[str],
        due: bool,
        turns: Sequence[CountedTurn],
        urgent: bool = False,
    ) -> Recorded:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile.

        A session that is ``due`` and ``urgent`` waits for no model any longer.
        """

    def recount(
        self,
        ref: SessionRef,
        seen: Uncounted,
        snapshot: Snapshot,
        *,
        basis: str,
        system_tokens: int,
        context_tokens: int,
        turns: Sequence[CountedTurn],
    ) -> bool:
        """Replace all counts made under another basis; False when the session changed."""

    def snapshot(self, ref: SessionRef) -> Snapshot | None:
        """An immutable view of the session; None for an unknown one."""

    def covered(
        self, ref: SessionRef, epoch: str, *, first_seq: int, last_seq: int
    ) -> tuple[LoggedTurn, ...]:
        """Turns out of the log, from Redis and the archive, by seq."""

    def lease(self, ref: SessionRef, *, forced: bool = False) -> Claim:
        """The right to compact the session; ``forced`` also while it waits or is parked."""

    def commit(
        self,
        ref: SessionRef,
        before: Snapshot,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        facts: Sequence[Fact],
        owner: str,
        record: Compaction,
        detail: bytes = b"",
    ) -> Committed:
        """Write the context if nobody else committed since ``before`` was loaded.

        ``snapshot`` is the same session with the plan's elisions; ``facts`` are its ledger.
        """

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Have the sweep look at a session in the backlog later."""

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed; due again later, or parked after too many in a row."""


class States(Protocol):
    """Earlier states of sessions in Redis, and the way back to them."""

    def states(self, ref: SessionRef) -> Past | None:
        """What a rollback is planned from; None for an unknown session."""

    def hold(self, ref: SessionRef, epoch: str, pictures: Iterable[Blob]) -> bool:
        """Have Redis hold these pictures for the session; False when it was forgotten meanwhile."""

    def restore(self, ref: SessionRef, past: Past, state: Restored) -> tuple[int, int]:
        """Go back to it, if nothing was committed meanwhile; the new version or 0, turns lost."""


class Outgoing(Protocol):
    """What left the log and is not in the archive yet."""

    def undrained(self, ref: SessionRef, *, most: int) -> Drain | None:
        """The oldest of it; None when there is nothing."""

    def drained(self, ref: SessionRef, drain: Drain) -> Literal["more", "done", "forgotten"]:
        """Trim what is archived now; says whether there is more, or nobody wants it any more."""

    def pictures(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """Pictures in Redis, by sha256; those that are there."""

    def forgotten(self, namespace: Namespace) -> list[tuple[SessionId, int]]:
        """Sessions to remove from the archive, with the time they were forgotten, in µs."""

    def forgotten_done(self, ref: SessionRef, at_us: int, *, settled: bool) -> None:
        """The archive has none of it; unless ``settled``, look again when late drains are over."""


class Archive(Protocol):
    """Where turns go that left the log."""

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
        """Pictures by sha256, those that are there."""

    def forget_epochs(self, ref: SessionRef, *, through_epoch: str) -> Removed:
        """Remove the session's incarnations up to this one."""

    def remember(self, namespace: Namespace, memory: Memory) -> bool:
        """Keep a memory an agent pushed; False when it was there."""


class Memories(Protocol):
    """Finds what a namespace remembers."""

    def search(self, namespace: Namespace, query: str, k: int) -> GroundedContext:
        """The best ``k`` memories for a query."""


class Templates(Protocol):
    """Managed templates by name."""

    def load(self, name: str) -> Template:
        """The template.

        Raises:
            UnknownTemplate, InvalidTemplate: none of this name, or it cannot be used.
        """


class Hints(Protocol):
    """Tells workers to look at a session; best effort."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when that failed, and the sweep will repair it."""


class Waiting(Protocol):
    """The sessions that wait for a summary, over all namespaces."""

    def add(self, ref: SessionRef, *, room: float) -> None:
        """Have the session wait; ``room`` is the share of it that is left, least comes first.

        Who has waited for long comes before who has less room.
        """

    def take(self) -> SessionRef | None:
        """Whose turn it is: namespaces take turns; None when nobody waits."""


class Gate(Protocol):
    """Says when a model may be asked: for all workers together, one per endpoint and model."""

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        """The round of a call that may be made now; None when nobody could say so.

        ``tokens`` it will be billed, as far as one knows; ``within_s`` it answers or fails.

        Raises:
            CircuitOpen, RateLimited: not now; say when it is worth asking again.
        """

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        """The call was answered, and billed ``used`` tokens."""

    def failed(
        self, round_: int | None, error: SummarizerUnavailable | SummarizerFailed, *, estimated: int
    ) -> None:
        """The call failed, for a reason that is the endpoint's."""


class Gates(Protocol):
    """Gives the gate before a model at an endpoint."""

    def __call__(self, url: str, model: str) -> Gate:
        """The gate; ``url`` may hold secrets, which go nowhere."""

    def __hash__(self) -> int:
        """Summarizers are kept by the gates they use."""


class Summarizers(Protocol):
    """Gives the summarizers a policy asks for."""

    def __call__(self, policy: Policy) -> Sequence[Summarizer]:
        """At least one, in the order they are to be tried."""


class Summarizer(Protocol):
    """Turns a request into a text; the only thing that may call a model."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A text of at most ``request.budget_tokens`` by this counter, and what it cost.

        Raises:
            Transient: the same request may succeed later.
            SummaryRejected: it will not; use the next rung of the ladder.
        """
