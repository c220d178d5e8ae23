"""The pipeline: what each task does with a session; a compaction climbs its ladder under a lease.

Knows ports only. Each method is one Celery task's work: it may be lost, late or doubled, and is
safe to run again, because the session's keys hold the truth and every write is conditional.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import structlog

from turnmill.contract.errors import SessionBusy, Transient, UnknownSession
from turnmill.contract.estimate import Counters
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.policy import OFFLINE
from turnmill.contract.results import SummarizationResult
from turnmill_worker.compaction.plan import previous_text
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.on_request import force as force_plan
from turnmill_worker.compaction.strategies.on_request import is_short
from turnmill_worker.compaction.strategies.registry import registered, unknown_of
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.pipeline.batch import Batches, BatchWriter, NoBatches
from turnmill_worker.pipeline.decide import Skip, decide, until_idle
from turnmill_worker.pipeline.estimate import Estimating
from turnmill_worker.pipeline.ladder import Ladder, Ports
from turnmill_worker.pipeline.summarize import Writer
from turnmill_worker.ports.protocols import Hints, Lease, Sessions, Summarizers, Waiting
from turnmill_worker.ports.values import FIRST_PAUSE_S, Failed, SessionRef
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.templates.loader import TemplateLoader

_FITS: Final = "everything fits as it is, and a summary would be no shorter"


class Forcing:
    """Summarizes at once, by a live request."""

    def __init__(
        self,
        ports: Ports,
        writer: Writer,
        batches: Batches | NoBatches,
        estimate: Callable[[SessionRef], object],
    ) -> None:
        self._ports = ports
        self._writer = writer
        self._batches = batches
        self._estimate = estimate

    def force(self, ref: SessionRef, *, template: str) -> SummarizationResult:
        """Summarize all but the newest turns now, whatever the limits say.

        Raises:
            UnknownSession: there is no such session.
            SessionBusy: another worker is compacting it, and takes long.
            InvalidName, UnknownTemplate, InvalidTemplate: the template cannot be used.
        """
        self._writer.check(template)
        claim = self._ports.sessions.lease(ref, forced=True)
        with claim as lease:
            self._estimate(ref)
            snapshot = self._ports.sessions.snapshot(ref)
            if snapshot is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            if lease is None:
                raise SessionBusy(f"another worker is compacting {ref.session!r}; try again")
            spent = self._batches.give_up(ref) if "own" in claim.batches else NOTHING
            return self._summarize(ref, lease, snapshot, spent, template=template)

    def _summarize(
        self, ref: SessionRef, lease: Lease, snapshot: Snapshot, spent: Spent, *, template: str
    ) -> SummarizationResult:
        """``spent`` was spent for nothing, beside what the snapshot knows of."""
        counter = self._ports.counter(snapshot.policy)
        plan = force_plan(snapshot, counter, template=template)
        if plan is None:
            lease.retry(after_s=0)  # whether the ladder has work is for the next to say
            return _nothing_done(snapshot, "no turns beside the newest")
        try:
            draft = self._writer.best(plan, counter)
        except SummaryRejected as error:
            # Whether the ladder has work is for the next to say.
            lease.retry(after_s=0, spent=snapshot.tried.spent + spent + error.spent)
            fits = is_short(plan) and snapshot.usage.total <= snapshot.limits.soft
            return _nothing_done(snapshot, _FITS if fits else f"the summary was refused: {error}")
        except Transient:
            lease.retry(after_s=FIRST_PAUSE_S)
            raise
        ladder = Ladder(self._ports, ref, lease, snapshot, self._writer)
        ladder.charge(spent)
        if ladder.commit(draft).outcome != "committed":
            raise SessionBusy(f"{ref.session!r} changed meanwhile; try again")
        return SummarizationResult(
            tokens_before=draft.record.tokens_before,
            tokens_after=draft.record.tokens_after,
            turns_summarized=draft.record.turns,
            summary=previous_text(draft.context),
            version=draft.record.version,
        )


def _nothing_done(snapshot: Snapshot, reason: str) -> SummarizationResult:
    total = snapshot.usage.total
    return SummarizationResult(
        tokens_before=total,
        tokens_after=total,
        turns_summarized=0,
        summary=previous_text(snapshot.stored),
        version=snapshot.version,
        reason=reason,
    )


log = structlog.get_logger()

POSTPONE_S = 60.0
"""How long a session rests whose job met a defect."""

MOST_STALE = 3
"""Summaries wasted because the session changed meanwhile, before no model is asked any more."""


class Pipeline:
    """One worker process's stages, given what they need from outside."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        hints: Hints,
        counters: Counters,
        summarizers: Summarizers,
        templates: TemplateLoader,
        waiting: Waiting | None = None,
        batches: Batches | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._batches = batches or NoBatches()
        self._writer = Writer(summarizers, templates)
        self._ports = Ports(
            sessions=sessions, hints=hints, counters=counters, waiting=waiting, chance=chance
        )
        self._estimating = Estimating(self._ports, self._batches)

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        return self._estimating.estimate(ref)

    def waiting(self, *hinted: SessionRef) -> Iterator[SessionRef]:
        """Sessions of the same shards to estimate as well."""
        return self._estimating.waiting(hinted)

    def compact(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target; a plan that needs a summary goes to its own queue."""
        return self._compact(ref, summarize=False)

    def summarize(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target, asking the policy's summarizer when the plan does."""
        return self._compact(ref, summarize=True)

    def force(self, ref: SessionRef, *, template: str) -> SummarizationResult:
        """Summarize all but the newest turns now; errors as of ``Forcing.force``."""
        forcing = Forcing(self._ports, self._writer, self._batches, self.estimate)
        return forcing.force(ref, template=template)

    def whose_turn(self, hinted: SessionRef) -> SessionRef:
        """The session to summarize: the one whose turn it is, or the hinted one if none waits.

        A broker hands messages out as they came: a namespace with many sessions would keep all
        others waiting. So a message only says that one more summary may be written.
        """
        waiting = self._ports.waiting
        if waiting is not None:
            with suppress(Transient):  # the job itself will say so
                return waiting.take() or hinted
        return hinted

    def postpone(self, ref: SessionRef, after_s: float = POSTPONE_S) -> None:
        """Keep the sweep from hinting a session at once if its job fails for a lasting reason."""
        self._ports.sessions.defer(ref, after_s=after_s)

    def hand_on(self, task: str, ref: SessionRef) -> None:
        """Hint the session again, for another worker."""
        self._ports.hints.send(task, ref)

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed, by the kind of its error."""
        return self._ports.sessions.failed(ref, error)

    def forgotten(self, ref: SessionRef) -> None:
        """Let a job that may ask a model end the batches that forgotten sessions awaited."""
        self._batches.leave_orphans(self._ports, ref)

    def _compact(self, ref: SessionRef, *, summarize: bool) -> Outcome:
        claim = self._ports.sessions.lease(ref)
        with claim as lease:
            if claim.batches:
                self._batches.end_orphans(self._ports, ref, claim, ask=summarize)
            if lease is None:
                return Outcome(outcome=claim.refusal, session=ref.session)
            snapshot = self._snapshot(ref)
            if snapshot is None:
                return Outcome(outcome="unknown", session=ref.session)
            ladder = Ladder(self._ports, ref, lease, snapshot, self._writer)
            awaited = "own" in claim.batches
            if awaited:
                outcome = self._batches.resume(ladder, self._writer, ask=summarize)
                if outcome is not None:
                    return outcome
            idle_s = until_idle(snapshot)
            decision = decide(snapshot.usage, snapshot.limits, snapshot.exceeded)
            if isinstance(decision, Skip) and idle_s != 0:
                return ladder.skip(idle_s)
            if unknown := unknown_of(snapshot.policy.strategies):
                log.warning("unknown strategies", names=unknown, known=registered())
            if _is_late(snapshot):
                ladder.use(self._writer.without_models())
            elif snapshot.policy.batch and not awaited and self._batches.suits(snapshot):
                # Without turns not counted yet: their bounds could not be reproduced later.
                planned = snapshot.as_of(snapshot.counted_seq)
                ladder.use(BatchWriter(ref, self._batches, self._writer), planned)
            return ladder.climb(summarize=summarize)

    def _snapshot(self, ref: SessionRef) -> Snapshot | None:
        """The session as it is; every turn is counted, unless new ones keep coming."""
        snapshot = self._ports.sessions.snapshot(ref)
        if snapshot is None or not snapshot.pending_messages:
            return snapshot
        # Bounds of uncounted turns would leave too little room for a summary of the others.
        self.estimate(ref)
        return self._ports.sessions.snapshot(ref) or snapshot


def _is_late(snapshot: Snapshot) -> bool:
    """Whether a model's summaries keep coming too late: a prompt may change with every step."""
    return snapshot.tried.stale >= MOST_STALE and snapshot.policy.summarizer != OFFLINE
