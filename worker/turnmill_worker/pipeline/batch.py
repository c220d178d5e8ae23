"""Summaries asked for in a batch: handed in by one job, fetched by a later one.

A batch costs half and may take a day, so only a session far from its limits awaits one. Nothing
depends on it: if anything goes wrong, or the session cannot wait any more, the summary is asked
for live. Redis remembers the awaited batch. A worker that dies between handing a batch in and
remembering it has wasted what the batch costs, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import structlog

from turnmill.contract.errors import Transient, TurnmillError
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Outcome
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.with_digest import with_digest
from turnmill_worker.errors import SummarizerFailed, SummaryRejected
from turnmill_worker.pipeline.ladder import Ladder, Ports
from turnmill_worker.pipeline.summarize import Draft, Later, Writer
from turnmill_worker.ports.protocols import (
    BatchEndpoint,
    BatchNotes,
    Claim,
    RememberedBatch,
    Summarizer,
)
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent

log = structlog.get_logger()


class Batches:
    """Which sessions may await a batch, for how long, and when it is looked for."""

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
            notes: where awaited batches are remembered.
            endpoint: where batches are handed in.
            first_look_s: seconds until a batch is looked for first.
            longest_pause_s: most seconds between two looks; a pause is as long as all before it.
            deadline_s: seconds after which a batch is given up.
        """
        self._notes = notes
        self._endpoint = endpoint
        self._first_look_s = first_look_s
        self._longest_pause_s = longest_pause_s
        self._deadline_s = deadline_s

    def suits(self, snapshot: Snapshot) -> bool:
        """Whether the session's policy wants batches, and the session has the time for one.

        It has the time below the middle between its soft limit and the point where it is urgent: a
        session already beyond that fills faster than a batch is done. A compaction that the
        policy's counts ask for does not wait either.
        """
        limits = snapshot.limits
        roomy = snapshot.usage.total <= (limits.soft + limits.urgent) // 2
        return snapshot.policy.batch and roomy and not snapshot.exceeded

    def hand_in(self, ref: SessionRef, plan: Plan, counter: Counter) -> Later | None:
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
            kept = self._notes.remember(ref, submitted.of(plan.snapshot))
        except TurnmillError:
            self._endpoint.discard(submitted)
            raise
        if not kept:
            self._endpoint.discard(submitted)
            return None
        return Later(self._first_look_s)

    def awaits(self, ref: SessionRef) -> bool:
        """Whether the session awaits a batch, useful or not."""
        return self._notes.remembered(ref) is not None

    def resume(self, ladder: Ladder, writer: Writer, *, ask: bool) -> Outcome | None:
        """The outcome of the batch the session awaits; None when there is none to wait for.

        ``ask`` says that this job may ask the endpoint; else it hands the session on.
        """
        batch = self._notes.remembered(ladder.ref)
        if batch is None:
            return None
        if not ask:
            return ladder.hand_on(waits="batch")
        match self._look(ladder.ref, ladder.snapshot, batch):
            case Later() as later:
                return ladder.wait(later)
            case "given-up":
                ladder.charge(self._give_up(ladder.ref, batch))
                return None
            case summarizer:
                planned = ladder.snapshot.as_of(batch.awaited.counted_seq)
                ladder.use(writer.led_by(summarizer), planned)
                outcome = ladder.climb(summarize=True)
                # A deferred session keeps its batch: the answer is paid for, and is used next time.
                if outcome.outcome != "deferred":
                    self.end(ladder.ref)
                return outcome

    def give_up(self, ref: SessionRef) -> Spent:
        """End the batch the session awaits, if any: it wants something else. Returns the cost."""
        batch = self._notes.remembered(ref)
        return NOTHING if batch is None else self._give_up(ref, batch)

    def end(self, ref: SessionRef) -> None:
        """End the batch the session awaits, if any: it has the answer, or is gone."""
        batch = self._notes.remembered(ref)
        if batch is not None:
            self._end(ref, batch)

    def end_orphans(self, ports: Ports, ref: SessionRef, claim: Claim, *, ask: bool) -> None:
        """End the batches of sessions that are gone, or leave that to a job that may ask.

        Their cost is recorded nowhere: there is no compaction to record it with.
        """
        # A new session may have begun under the name of a forgotten one.
        while ask and "orphaned" in claim.batches:
            awaited = self._notes.take_orphan(ref)
            if awaited is None:
                break
            self._endpoint.discard(awaited)
        if claim.refusal == "unknown" and "own" in claim.batches:
            # Its keys expired while it awaited one; a forgotten session left no note.
            if ask:
                self.end(ref)
            else:
                ports.await_turn(ref, room=0.0)

    def leave_orphans(self, ports: Ports, ref: SessionRef) -> None:
        """Let a job that may ask a model end the batches that forgotten sessions awaited."""
        if self._notes.has_orphan(ref):
            ports.await_turn(ref, room=0.0)

    def _look(
        self, ref: SessionRef, snapshot: Snapshot, batch: RememberedBatch
    ) -> Later | Summarizer | Literal["given-up"]:
        """What has become of the batch: a summarizer that has the answer, once there is one."""
        if batch.awaited.fits(snapshot):
            try:
                found = self._endpoint.poll(snapshot.policy, batch.awaited)
            except Transient as error:
                log.warning("batch-not-found", session=ref.session, error=type(error).__name__)
                found = None
            except SummarizerFailed as error:
                log.warning("batch-failed", session=ref.session, error=type(error).__name__)
                return "given-up"
            if found is not None:
                return found
            hurried = snapshot.usage.total > snapshot.limits.urgent or snapshot.exceeded
            if not hurried and batch.age_s < self._deadline_s:
                pause = max(batch.age_s, self._first_look_s)
                return Later(min(pause, self._longest_pause_s))
        log.info("batch-given-up", session=ref.session, age_s=int(batch.age_s))
        return "given-up"

    def _give_up(self, ref: SessionRef, batch: RememberedBatch) -> Spent:
        spent = self._endpoint.cost(batch.awaited)
        return spent if self._end(ref, batch, spent) else NOTHING

    def _end(self, ref: SessionRef, batch: RememberedBatch, spent: Spent = NOTHING) -> bool:
        # Dropped last: if this worker dies before, the next one ends the batch.
        self._endpoint.discard(batch.awaited)
        return self._notes.drop(ref, batch, spent)


class NoBatches:
    """``Batches`` for workers that have no endpoint to hand batches in at."""

    def suits(self, _snapshot: Snapshot) -> bool:
        """No session awaits one."""
        return False

    def hand_in(self, _ref: SessionRef, _plan: Plan, _counter: Counter) -> Later | None:
        """It has to be asked live."""

    def awaits(self, _ref: SessionRef) -> bool:
        """No session does."""
        return False

    def resume(self, _ladder: Ladder, _writer: Writer, *, ask: bool) -> Outcome | None:
        """There is nothing to wait for."""

    def give_up(self, _ref: SessionRef) -> Spent:
        """It has cost nothing."""
        return NOTHING

    def end_orphans(self, _ports: Ports, _ref: SessionRef, _claim: Claim, *, ask: bool) -> None:
        """Other workers do."""

    def leave_orphans(self, _ports: Ports, _ref: SessionRef) -> None:
        """There are none."""


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Hands a plan's request in, and leaves the answer for later; if it cannot, writes live."""

    ref: SessionRef
    batches: Batches | NoBatches
    live: Writer

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft | Later:
        """When to look for the answer, or the live writer's draft; errors as of ``Writer.best``."""
        # With its digest, as a live request: the answer is recognised by the whole request.
        whole = with_digest(plan, counter)
        later = self.batches.hand_in(self.ref, whole, counter)
        return later or self.live.best(plan, counter, patient=patient)
