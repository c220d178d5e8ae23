"""What the pipeline needs from the outside, as protocols with only the methods it calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from turnmill.contract.context import StoredContext, Usage
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.outcomes import Compaction
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.snapshot import Snapshot, SummaryRequest

__all__ = [
    "Committed",
    "CountedTurn",
    "Counter",
    "Counters",
    "Hints",
    "Lease",
    "Recorded",
    "SessionRef",
    "Sessions",
    "Summarizer",
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
    """A turn's exact tokens, as it is read."""

    seq: Seq
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """The oldest turns nobody has counted, and the session's numbers as of then.

    Attributes:
        epoch, settings: which incarnation of the session, and which policy and prompt, counts
            belong to.
        basis: how the present counts were made; ``""`` before the first.
        open_calls: calls among the counted turns that still wait for their result.
        usage: tokens by part, without those of uncounted turns.
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


class Counter(Protocol):
    """Counts tokens of text exactly, or says by its basis that it only estimates."""

    @property
    def basis(self) -> str:
        """The vocabulary and the version of the message formula."""

    def count(self, text: str) -> int:
        """Tokens of the text."""


class Counters(Protocol):
    """Gives the counter for a vocabulary."""

    def __call__(self, encoding: str) -> Counter:
        """The counter for this encoding, or the best stand-in."""


class Lease(Protocol):
    """The right to compact one session, renewed while it is held."""

    @property
    def owner(self) -> str:
        """What tells this lease from all others."""

    def release(self, seen: Snapshot) -> bool:
        """Give it up, nothing to do; True when the session changed since, and is due at once."""

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

    def lease(self, ref: SessionRef) -> AbstractContextManager[Lease | None]:
        """The right to compact the session, or None when it is taken or the session gone."""

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        owner: str,
        record: Compaction,
    ) -> Committed:
        """Write the context if nobody else committed since the snapshot it was planned from."""

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Have the sweep look at a session in the backlog later."""


class Hints(Protocol):
    """Tells workers to look at a session; best effort."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when that failed, and the sweep will repair it."""


class Summarizer(Protocol):
    """Turns a request into a text; the only thing that may call a model."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> str:
        """The text, at most ``request.budget_tokens`` by this counter.

        Raises:
            Transient: the same request may succeed later.
            SummaryRejected: it will not; use the next rung of the ladder.
        """
