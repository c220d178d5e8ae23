"""The pipeline's stages in order: estimate, decide, plan, summarize, splice, commit.

Knows ports only. Each method is one Celery task's work: it may be lost, late or doubled, and is
safe to run again, because truth is in the session's keys and every write is conditional.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from turnmill.contract.errors import SessionBusy, Transient, UnknownSession
from turnmill.contract.outcomes import Outcome
from turnmill.contract.results import SummarizationResult
from turnmill_worker.compaction.count_limits import demands
from turnmill_worker.compaction.plan import previous_text
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies.on_request import force as force_plan
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.pipeline.batch import Batching, GivenUp, Later, Look, Written
from turnmill_worker.pipeline.count_turns import CountedOnce, counting
from turnmill_worker.pipeline.decide import Compact, Skip, decide
from turnmill_worker.pipeline.estimate import Estimating
from turnmill_worker.pipeline.ladder import RETRY_AFTER_S, Ladder, Means, await_turn
from turnmill_worker.pipeline.summarize import Writer
from turnmill_worker.ports.awaited_summary import as_of
from turnmill_worker.ports.counters import Counter, Counters
from turnmill_worker.ports.models import Summarizers, Templates
from turnmill_worker.ports.queues import Hints, Waiting
from turnmill_worker.ports.sessions import Claim, Lease, Sessions
from turnmill_worker.ports.values import Failed, SessionRef

__all__ = ["Pipeline"]

POSTPONE_S = 60.0
"""When a session whose job met a defect is looked at again."""


class Pipeline:
    """One worker process's stages, given what they need from outside."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        hints: Hints,
        counters: Counters,
        summarizers: Summarizers,
        templates: Templates,
        waiting: Waiting | None = None,
        batching: Batching | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sessions = sessions
        self._counters = counters
        self._summarizers = summarizers
        self._templates = templates
        self._writer = Writer(summarizers, templates)
        self._batching = batching
        self._estimating = Estimating(sessions, hints, counters, batching)
        self._means = Means(
            sessions=sessions, hints=hints, writer=self._writer, waiting=waiting, chance=chance
        )

    # estimate

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        return self._estimating.estimate(ref)

    def postpone(self, ref: SessionRef) -> None:
        """Keep the sweep from hinting a session at once whose job fails for no passing reason."""
        self._sessions.defer(ref, after_s=POSTPONE_S)

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed, by the kind of its error."""
        return self._sessions.failed(ref, error)

    # compact and summarize

    def compact(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target; a plan that needs a summary goes to its own queue."""
        return self._compact(ref, summarize=False)

    def chosen(self, hinted: SessionRef) -> SessionRef:
        """The session a summarize job is for: whose turn it is, or the hinted one if none waits.

        A broker hands messages out as they came: a namespace with many sessions would keep all
        others waiting. So a message only says that one more summary may be written.
        """
        waiting = self._means.waiting
        if waiting is not None:
            with suppress(Transient):  # the job itself will say so
                return waiting.take() or hinted
        return hinted

    def summarize(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target, asking the policy's summarizer when the plan does."""
        return self._compact(ref, summarize=True)

    def _compact(self, ref: SessionRef, *, summarize: bool) -> Outcome:
        claim = self._sessions.lease(ref)
        with claim as lease:
            if self._batching is not None and claim.abandons and summarize:
                # Here, because a session of the name of a forgotten one may have begun since.
                self._batching.forget(ref)
            if lease is None:
                return self._refused(ref, claim, summarize=summarize)
            snapshot = self._sessions.snapshot(ref)
            if snapshot is None:
                return Outcome(outcome="unknown", session=ref.session)
            if snapshot.pending_messages:
                # By their bounds they would leave too little room for a summary of the others.
                self.estimate(ref)
                snapshot = self._sessions.snapshot(ref) or snapshot
            asked = demands(snapshot.policy, snapshot.tally)
            batching = self._batching
            if batching is not None and claim.awaits:
                match batching.look(ref, snapshot, asked, ask=summarize):
                    case GivenUp(spent):
                        snapshot = replace(snapshot, tried=snapshot.tried.plus(spent))
                    case Later() | Written() | "elsewhere" as found:
                        return self._awaited(ref, lease, snapshot, found)
                batching = None
            elif batching is not None and not batching.suits(snapshot, asked):
                batching = None
            if "managed" in asked:
                snapshot = replace(snapshot, earlier=self._earlier(ref, snapshot))
            return self._decide(ref, lease, snapshot, asked, batching, summarize=summarize)

    def _refused(self, ref: SessionRef, claim: Claim, *, summarize: bool) -> Outcome:
        if claim.refusal == "unknown" and claim.awaits and self._batching is not None:
            # Its keys expired while it awaited a batch; a forgotten one left no note.
            if summarize:
                self._batching.end(ref)
            else:
                await_turn(self._means, ref, room=0.0)
        return Outcome(outcome=claim.refusal, session=ref.session)

    def forgotten(self, ref: SessionRef) -> None:
        """Have the batches ended that forgotten sessions awaited, by a job that may ask a model."""
        if self._batching is not None and self._batching.abandons(ref):
            await_turn(self._means, ref, room=0.0)

    def _decide(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        asked: Mapping[str, str],
        batching: Batching | None,
        *,
        summarize: bool,
    ) -> Outcome:
        match decide(snapshot.usage, snapshot.limits, asked):
            case Skip():
                return self._ladder(ref, lease, snapshot).give_up("skipped")
            case Compact():
                if batching is not None:
                    # Bounds of turns not counted yet could not be told again later.
                    snapshot = as_of(snapshot, snapshot.counted_seq)
                ladder = self._ladder(ref, lease, snapshot)
                return ladder.climb(summarize=summarize, batching=batching)

    def _awaited(self, ref: SessionRef, lease: Lease, snapshot: Snapshot, found: Look) -> Outcome:
        """What a summary awaited from a batch leads to."""
        match found:
            case Later(after_s):
                lease.retry(after_s=after_s, waits="batch")
                return Outcome(outcome="batched", session=ref.session)
            case Written(planned, summarizer):
                others = self._summarizers(snapshot.policy)[1:]
                writer = Writer(lambda _: [summarizer, *others], self._templates)
                counter = self._counter(planned)
                ladder = Ladder(
                    self._means, ref, lease, planned, counter, now=snapshot, writer=writer
                )
                outcome = ladder.climb(summarize=True)
                # What a deferred one got from its batch is paid for: it looks again.
                if self._batching is not None and outcome.outcome != "deferred":
                    self._batching.end(ref)
                return outcome
            case _:
                return self._ladder(ref, lease, snapshot).hand_on(waits="batch")

    def _ladder(self, ref: SessionRef, lease: Lease, snapshot: Snapshot) -> Ladder:
        return Ladder(self._means, ref, lease, snapshot, self._counter(snapshot))

    def _counter(self, snapshot: Snapshot) -> Counter:
        policy = snapshot.policy
        return CountedOnce(self._counters(policy.encoding, policy.image_formula))

    def _earlier(self, ref: SessionRef, snapshot: Snapshot) -> tuple[LoggedTurn, ...]:
        """The covered turns no receipt names: what a managed view may look back at."""
        named = max((receipt.last_seq for receipt in snapshot.stored.receipts), default=0)
        return self._sessions.covered(
            ref, snapshot.epoch, first_seq=named + 1, last_seq=snapshot.stored.watermark
        )

    # asked for

    def force(self, ref: SessionRef, *, template: str) -> SummarizationResult:
        """Summarize all but the newest turns now, whatever the limits say.

        Raises:
            UnknownSession: there is no such session.
            SessionBusy: another worker is compacting it, and takes long.
            InvalidName, UnknownTemplate, InvalidTemplate: the template cannot be used.
        """
        self._writer.check(template)
        claim = self._sessions.lease(ref, forced=True)
        with claim as lease:
            self.estimate(ref)
            snapshot = self._sessions.snapshot(ref)
            if snapshot is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            if lease is None:
                raise SessionBusy(f"another worker is compacting {ref.session!r}; try again")
            if self._batching is not None and claim.awaits:
                spent = self._batching.give_up(ref)
                snapshot = replace(snapshot, tried=snapshot.tried.plus(spent))
            counter = self._counter(snapshot)
            count = counting(counter)
            plan = force_plan(snapshot, count, template=template)
            if plan is None:
                lease.retry(after_s=0)  # whether the ladder has work is for the next to say
                return _nothing_done(snapshot, "no turns beside the newest")
            ladder = self._ladder(ref, lease, snapshot)
            try:
                draft = self._writer.best(snapshot, plan, counter, count)
            except SummaryRejected as error:
                # Whether the ladder has work is for the next to say.
                lease.retry(after_s=0, spent=snapshot.tried.spent + error.spent)
                return _nothing_done(snapshot, f"the summary was refused: {error}")
            except Transient:
                lease.retry(after_s=RETRY_AFTER_S)
                raise
            outcome = ladder.commit(draft)
            if outcome.outcome != "committed":
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
