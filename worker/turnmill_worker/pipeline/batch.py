"""Summaries asked for in a batch: handed in by one job, fetched by a later one.

A batch costs half and may take a day, so only a session far from its limits awaits one. Nothing
hangs on it: whatever goes wrong, or as soon as the session cannot wait, the summary is asked for
live. What is awaited is remembered in Redis; a worker that dies between handing a batch in and
remembering it has wasted what the batch costs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from turnmill.contract.errors import Transient, TurnmillError
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.errors import SummarizerFailed, SummaryRejected
from turnmill_worker.ports.awaited_summary import Awaited, as_of
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent

__all__ = [
    "BatchEndpoint",
    "BatchNotes",
    "Batching",
    "GivenUp",
    "Later",
    "Look",
    "Noted",
    "Written",
]


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Noted:
    """What a session awaits, as it is remembered.

    Attributes:
        note: the same as it is stored.
        age_s: since it was handed in.
    """

    awaited: Awaited
    note: bytes
    age_s: float


@dataclass(frozen=True, slots=True)
class Later:
    """The batch is under way; look again after that many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Written:
    """The batch is done.

    Attributes:
        snapshot: the session as it was planned from; later turns are plain tail.
        summarizer: answers that plan's request.
    """

    snapshot: Snapshot
    summarizer: Summarizer


@dataclass(frozen=True, slots=True)
class GivenUp:
    """There will be no answer, or it would come too late: ask live.

    Attributes:
        spent: on it for nothing, as far as the endpoint tells; the next commit counts it.
    """

    spent: Spent


Look = Later | Written | GivenUp | Literal["elsewhere"]
"""What has become of a batch; ``elsewhere`` - it has to be looked for by a job that may ask the
endpoint."""


class BatchEndpoint(Protocol):
    """Where batches are handed in."""

    def submit(self, policy: Policy, request: SummaryRequest, counter: Counter) -> Awaited | None:
        """Hand the request in; None when it cannot be asked in a batch.

        Raises:
            Transient, SummarizerFailed: the endpoint did not take it.
            SummaryRejected: there is nothing to ask.
        """

    def poll(self, policy: Policy, awaited: Awaited) -> Summarizer | None:
        """A summarizer that has the answer, or None while there is none.

        Raises:
            Transient: the endpoint cannot be asked now.
            SummarizerFailed: there will be no answer.
        """

    def cost(self, awaited: Awaited) -> Spent:
        """What it has cost by now, as far as the endpoint can be asked and tells."""

    def discard(self, awaited: Awaited) -> None:
        """End it, and remove what the endpoint keeps of it, as far as the endpoint can be asked."""


class BatchNotes(Protocol):
    """Remembers what sessions await."""

    def note(self, ref: SessionRef, awaited: Awaited) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""

    def noted(self, ref: SessionRef) -> Noted | None:
        """What is awaited, and for how long by now."""

    def drop(self, ref: SessionRef, noted: Noted, spent: Spent = NOTHING) -> bool:
        """No longer remember it; ``spent`` on it counts for the next commit. False: it was gone."""

    def abandons(self, ref: SessionRef) -> bool:
        """Whether there is one that a forgotten session of this one's shard awaited."""

    def abandoned(self, ref: SessionRef) -> Awaited | None:
        """One that a forgotten session awaited, of the sessions in this one's shard; only once."""


class Batching:
    """Who may await a batch, for how long, and when it is looked for."""

    def __init__(
        self,
        notes: BatchNotes,
        endpoint: BatchEndpoint,
        *,
        first_look_s: float = 30.0,
        longest_pause_s: float = 600.0,
        deadline_s: float = 86_400.0,
    ) -> None:
        """Nothing is awaited yet.

        Args:
            notes: where it is remembered.
            endpoint: where batches are handed in.
            first_look_s: when a batch is looked for first.
            longest_pause_s: between two looks; a pause is as long as all before it together.
            deadline_s: when a batch is given up.
        """
        self._notes = notes
        self._endpoint = endpoint
        self._first_look_s = first_look_s
        self._longest_pause_s = longest_pause_s
        self._deadline_s = deadline_s

    def suits(self, snapshot: Snapshot, asked: Mapping[str, str]) -> bool:
        """Whether the session's policy wants batches, and it has the time for one.

        Below the middle between its soft limit and the point where it is urgent: a session that
        is beyond before anybody looked fills faster than a batch is done. What its policy's
        counts ask for does not wait either.
        """
        limits = snapshot.limits
        roomy = snapshot.usage.total <= (limits.soft + limits.urgent) // 2
        return snapshot.policy.batch and roomy and not asked

    def begin(self, ref: SessionRef, plan: Plan, counter: Counter) -> Later | None:
        """Hand in the plan's request; None when it has to be asked live."""
        if len(plan.requests) != 1 or plan.requests[0].template:
            return None
        try:
            submitted = self._endpoint.submit(plan.snapshot.policy, plan.requests[0], counter)
        except (Transient, SummarizerFailed, SummaryRejected) as error:
            log.warning("batch-refused", session=ref.session, error=type(error).__name__)
            return None
        if submitted is None:
            return None
        try:
            kept = self._notes.note(ref, submitted.of(plan.snapshot))
        except TurnmillError:
            self._endpoint.discard(submitted)
            raise
        if not kept:
            self._endpoint.discard(submitted)
            return None
        return Later(self._first_look_s)

    def awaits(self, ref: SessionRef) -> bool:
        """Whether the session awaits a batch, of use or not."""
        return self._notes.noted(ref) is not None

    def look(
        self, ref: SessionRef, snapshot: Snapshot, asked: Mapping[str, str], *, ask: bool
    ) -> Look | None:
        """What has become of the batch the session awaits, if any; ``ask`` the endpoint, or not."""
        noted = self._notes.noted(ref)
        if noted is None:
            return None
        if not ask:
            return "elsewhere"
        if noted.awaited.fits(snapshot):
            try:
                found = self._endpoint.poll(snapshot.policy, noted.awaited)
            except Transient as error:
                log.warning("batch-not-found", session=ref.session, error=type(error).__name__)
                found = None
            except SummarizerFailed as error:
                log.warning("batch-failed", session=ref.session, error=type(error).__name__)
                return GivenUp(self._give_up(ref, noted))
            if found is not None:
                return Written(as_of(snapshot, noted.awaited.counted_seq), found)
            hurried = snapshot.usage.total > snapshot.limits.urgent or asked
            if not hurried and noted.age_s < self._deadline_s:
                pause = max(noted.age_s, self._first_look_s)
                return Later(min(pause, self._longest_pause_s))
        log.info("batch-given-up", session=ref.session, age_s=int(noted.age_s))
        return GivenUp(self._give_up(ref, noted))

    def give_up(self, ref: SessionRef) -> Spent:
        """End what the session awaits, if anything: it wants something else; what it has cost."""
        noted = self._notes.noted(ref)
        return NOTHING if noted is None else self._give_up(ref, noted)

    def end(self, ref: SessionRef) -> None:
        """End what the session awaits, if anything: it has that, or is no more."""
        noted = self._notes.noted(ref)
        if noted is not None:
            self._end(ref, noted)

    def abandons(self, ref: SessionRef) -> bool:
        """Whether ``forget`` has something to end."""
        return self._notes.abandons(ref)

    def forget(self, ref: SessionRef) -> None:
        """End what sessions forgotten by now awaited; those of one shard.

        What those have cost is recorded nowhere: there is no compaction to record it with.
        """
        while (awaited := self._notes.abandoned(ref)) is not None:
            self._endpoint.discard(awaited)

    def _give_up(self, ref: SessionRef, noted: Noted) -> Spent:
        spent = self._endpoint.cost(noted.awaited)
        return spent if self._end(ref, noted, spent) else NOTHING

    def _end(self, ref: SessionRef, noted: Noted, spent: Spent = NOTHING) -> bool:
        # Dropped last: should this worker die before, the next one ends it.
        self._endpoint.discard(noted.awaited)
        return self._notes.drop(ref, noted, spent)
