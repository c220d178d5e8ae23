"""What the pipeline needs from the outside, as protocols with only the methods it calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from turnmill.contract.context import StoredContext, Usage
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.outcomes import Compaction
from turnmill.contract.policy import Policy
from turnmill.contract.results import GroundedContext
from turnmill.contract.trajectory import TurnState
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, SummaryRequest
from turnmill_worker.compaction.tally import Tally
from turnmill_worker.records import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    Memory,
    Removed,
)
from turnmill_worker.templates.template import Template

__all__ = [
    "Archive",
    "Committed",
    "CountedTurn",
    "Counter",
    "Counters",
    "Drain",
    "Hints",
    "Lease",
    "Mark",
    "Memories",
    "Outgoing",
    "Past",
    "PastState",
    "Recorded",
    "Restored",
    "SessionRef",
    "Sessions",
    "States",
    "Summarizer",
    "Summary",
    "Templates",
    "Uncounted",
    "UncountedTurn",
]


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session and the namespace it belongs to."""

    namespace: Namespace
    session: SessionId


@dataclass(frozen=True, slots=True)
class UncountedTurn:
    """A turn nobody has counted."""

    seq: Seq
    messages: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CountedTurn:
    """A turn's exact tokens, as it is read; and what is in it beside text."""

    seq: Seq
    tokens: int
    images: int = 0
    interactions: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """The oldest turns nobody has counted, and the session's numbers as of then.

    Attributes:
        epoch, settings: which incarnation of the session, and which policy and prompt, counts
            belong to.
        basis: how the present counts were made; ``""`` before the first.
        open_calls: calls among the counted turns that still wait for their result.
        usage: tokens by part, without those of uncounted turns.
        tally: other counts, without those of uncounted turns.
        put_off: tokens below which no compaction is tried again, or 0.
        turns: oldest first.
    """

    epoch: str
    settings: str
    policy: Policy
    system: str
    basis: str
    counted_seq: Seq
    open_calls: tuple[str, ...]
    usage: Usage
    tally: Tally
    put_off: int
    turns: tuple[UncountedTurn, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of counts: the session may be stale, still waiting, or newly due."""

    stale: bool
    waiting: bool
    newly_due: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's new version, or 0 when another came first; and whether to compact again."""

    version: int
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a summarizer wrote.

    Attributes:
        text: the summary.
        model: who wrote it.
        prompt_tokens, completion_tokens: billed.
        cost_usd: of those, or None when no price is known.
    """

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Turns set aside after they left the log."""

    after_seq: int
    through_seq: int
    state: TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What goes to the archive at once: in order, turns and marks; and how far it reaches."""

    epoch: str
    steps: tuple[Batch | Mark, ...]
    turns_through: str
    commits_through: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """A state a rollback can restore.

    Attributes:
        id: the checkpoint's, or ``version <n>``.
        entry: of its stream in Redis, or ``""``.
        seq: its newest turn.
        stored: its context.
    """

    id: str
    entry: str
    seq: Seq
    stored: StoredContext
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """All of a session that is in Redis, at one moment.

    Attributes:
        tokens: of the context, without turns nobody has counted.
        left: turns that left the log and are not archived yet, and marks, in that order.
        log: turns after the watermark.
        checkpoints: oldest first.
        commits: contexts committed and not archived yet.
    """

    epoch: str
    settings: str
    policy: Policy
    version: Version
    watermark: Seq
    last_seq: Seq
    system: str
    system_tokens: int
    basis: str
    tokens: int
    left: tuple[ArchivedTurn | Mark, ...]
    log: tuple[ArchivedTurn, ...]
    checkpoints: tuple[PastState, ...]
    commits: tuple[ArchivedCompaction, ...]

    def over(self, archived: Sequence[ArchivedTurn]) -> list[ArchivedTurn]:
        """These turns and those in Redis together, once each, by seq, as they are by now."""
        found = {turn.seq: turn for turn in archived}
        for step in self.left:
            if isinstance(step, Mark):
                marked = (seq for seq in found if step.after_seq < seq <= step.through_seq)
                for seq in marked:
                    if found[seq].state == "kept":
                        found[seq] = replace(found[seq], state=step.state)
            else:
                found.setdefault(step.seq, step)
        found |= {turn.seq: turn for turn in self.log}
        return [found[seq] for seq in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A state as it is written back, counted.

    Attributes:
        stored: its context, with the version it will have.
        turns: its turns after the watermark, with their exact tokens.
        used: entry of the checkpoint that is used up by it, or ``""``.
        due: its context is over the soft limit.
    """

    seq: Seq
    stored: StoredContext
    turns: tuple[tuple[ArchivedTurn, CountedTurn], ...]
    open_calls: tuple[str, ...]
    basis: str
    images_before: int
    quality: float | None
    record: Compaction
    used: str
    due: bool


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

    def release(self, seen: Snapshot) -> bool:
        """Give it up, nothing to do; True when the session changed since, and is due at once."""

    def put_off(self, seen: Snapshot, *, until_tokens: int) -> bool:
        """As ``release``; and the session is not due again below so many tokens."""

    def retry(self, *, after_s: float) -> None:
        """Give it up; the session is due again after that many seconds."""


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
    ) -> Recorded:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile."""

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

    def lease(self, ref: SessionRef) -> AbstractContextManager[Lease | None]:
        """The right to compact the session, or None when it is taken or the session gone."""

    def commit(
        self,
        ref: SessionRef,
        before: Snapshot,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        owner: str,
        record: Compaction,
        detail: bytes = b"",
    ) -> Committed:
        """Write the context if nobody else committed since ``before`` was loaded.

        ``snapshot`` is the same session with the plan's elisions.
        """

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Have the sweep look at a session in the backlog later."""


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


class Summarizer(Protocol):
    """Turns a request into a text; the only thing that may call a model."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A text of at most ``request.budget_tokens`` by this counter, and what it cost.

        Raises:
            Transient: the same request may succeed later.
            SummaryRejected: it will not; use the next rung of the ladder.
        """
