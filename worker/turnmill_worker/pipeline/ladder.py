"""The ladder: one compaction under a lease, rung after rung, until a draft can be committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from turnmill.contract import jobs
from turnmill.contract.errors import Transient
from turnmill.contract.info import Waits
from turnmill.contract.outcomes import Outcome
from turnmill.contract.policy import OFFLINE
from turnmill_worker.compaction.ledger.budget import with_facts
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.choose import plan as plan_compaction
from turnmill_worker.errors import SummaryDeferred, SummaryRejected
from turnmill_worker.pipeline.backoff import may_wait, pause_s
from turnmill_worker.pipeline.batch import Batching
from turnmill_worker.pipeline.count_turns import counting
from turnmill_worker.pipeline.draft import Draft
from turnmill_worker.pipeline.summarize import Writer
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.queues import Hints, Waiting
from turnmill_worker.ports.sessions import Lease, Sessions
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import Spent, Tried

__all__ = ["RETRY_AFTER_S", "Ladder", "Means", "await_turn"]

RETRY_AFTER_S = 5.0
"""When a summarizer's passing failure is tried again."""

MOST_STALE = 3
"""Summaries written for nothing, because the session changed meanwhile, before none is asked."""

HANDOVER_S = 5.0
"""When the sweep doubts that a summary job handed on was ever received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every compaction of a process needs.

    Attributes:
        chance: a number in 0..1, another each time: pauses of many sessions must not end together.
    """

    sessions: Sessions
    hints: Hints
    writer: Writer
    waiting: Waiting | None
    chance: Callable[[], float]


def await_turn(means: Means, ref: SessionRef, *, room: float) -> None:
    """Have the session wait for a summary, and allow for one more to be written."""
    if means.waiting is not None:
        means.waiting.add(ref, room=room)
    means.hints.send(jobs.SUMMARIZE, ref)


class Ladder:
    """One compaction of one session.

    Args:
        snapshot: what is planned from.
        now: the session as it is by now, where the plan is an older one, made again.
        writer: who writes, where it is not the process's own.
    """

    def __init__(
        self,
        means: Means,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        counter: Counter,
        *,
        now: Snapshot | None = None,
        writer: Writer | None = None,
    ) -> None:
        self._means = means
        self._ref = ref
        self._lease = lease
        self._snapshot = snapshot
        self._counter = counter
        self._now = now or snapshot
        self._writer = writer or means.writer
        self._poor: list[Draft] = []
        self._rejected: list[str] = []
        self._known = self._wasted = snapshot.tried.spent

    def climb(self, *, summarize: bool, batching: Batching | None = None) -> Outcome:
        """The first rung whose result is good enough to commit; a rejected one is gone below.

        Args:
            summarize: this job may ask a summarizer; else a plan that needs one is handed on.
            batching: where a summary may be awaited from a batch.
        """
        count = counting(self._counter)
        tried = self._snapshot.tried
        batching = self._unless_late(tried, batching)
        while True:
            below = self._rejected[-1] if self._rejected else ""
            plan = plan_compaction(self._snapshot, count, below=below)
            if plan is None or plan.strategy in self._rejected:
                return self._end()
            if plan.requests and not summarize:
                return self.hand_on(plan.strategy)
            if batching is not None:
                batched = self._batched(plan, batching)
                if batched is not None:
                    return batched
            try:
                patient = may_wait(self._now, tried)
                draft = self._writer.best(
                    self._snapshot, plan, self._counter, count, patient=patient
                )
            except SummaryRejected as error:
                self._wasted += error.spent
                self._rejected.append(plan.strategy)
                continue
            except SummaryDeferred as error:
                self._wasted += error.spent
                return self._defer(error, tried.deferrals)
            except Transient:
                self._lease.retry(after_s=RETRY_AFTER_S)
                raise
            if draft.is_good_enough:
                return self.commit(draft)
            self._rejected.append(plan.strategy)
            self._poor.append(draft)

    def _unless_late(self, tried: Tried, batching: Batching | None) -> Batching | None:
        """The same, and None after too many summaries for nothing: then no model is asked either.

        A prompt may change with every step: what no model writes is there before the next.
        """
        asks_none = self._snapshot.policy.summarizer == OFFLINE
        if asks_none or tried.stale < MOST_STALE or self._writer is not self._means.writer:
            return batching
        self._writer = self._writer.hasty()
        return None

    def hand_on(self, strategy: str | None = None, *, waits: Waits = "turn") -> Outcome:
        """Leave the session to a job that may ask a model."""
        self._lease.retry(after_s=HANDOVER_S, waits=waits)
        limits = self._now.limits
        left = limits.hard - self._now.usage.total
        await_turn(self._means, self._ref, room=left / max(limits.room, 1))
        return self._outcome("needs-summary", strategy=strategy)

    def commit(self, draft: Draft) -> Outcome:
        """Write the draft's context, if nobody else committed meanwhile."""
        others = sum((each.spent for each in self._poor if each is not draft), self._wasted)
        draft = replace(draft, wasted=draft.wasted + others)
        record = draft.record
        committed = self._means.sessions.commit(
            self._ref,
            draft.before,
            draft.plan.snapshot,
            draft.context,
            facts=draft.plan.facts,
            owner=self._lease.owner,
            record=record,
            detail=draft.detail,
        )
        if not committed.version:
            stale = bool(draft.plan.requests)
            self._lease.retry(after_s=0, spent=draft.spent, stale=stale)
            self._hint_again()
            return self._outcome("stale", strategy=record.strategy)
        self._means.hints.send(jobs.ARCHIVE, self._ref)
        if committed.again:
            self._hint_again()
        return self._outcome(
            "committed",
            turns=record.turns or None,
            elided=record.elided or None,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            strategy=record.strategy,
            version=record.version,
            quality=record.quality,
            rejected=tuple(r for r in self._rejected if r != record.strategy) or None,
            failed=record.failed or None,
        )

    def give_up(self, outcome: str, **more: object) -> Outcome:
        """Leave the session as it is, until something changes."""
        if self._lease.release(self._now, spent=self._wasted):
            self._hint_again()
        return self._outcome(outcome, **more)

    def _batched(self, plan: Plan, batching: Batching) -> Outcome | None:
        """The plan's summary is awaited from a batch now; None when it has to be asked live."""
        # With what a live request would say of facts: the answer is asked for by its request.
        plan = with_facts(plan, self._counter.count)
        later = batching.begin(self._ref, plan, self._counter)
        if later is None:
            return None
        self._lease.retry(after_s=later.after_s, waits="batch")
        return self._outcome("batched", strategy=plan.strategy)

    def _defer(self, error: SummaryDeferred, times: int) -> Outcome:
        """Wait for the models, unless turns that came meanwhile leave no room to."""
        after_s = pause_s(times, at_least_s=error.retry_after_s, chance=self._means.chance())
        if self._lease.defer(self._now, after_s=after_s, spent=self._spent, failed=error.failed):
            after_s = 0.0
            self._hint_again()
        return self._outcome("deferred", failed=error.failed, retry_s=round(after_s, 1))

    def _end(self) -> Outcome:
        """Nothing was good enough: the previous context stays, as long as there is room.

        Above the hard limit every read cuts turns off without a word of summary: before it comes
        to that, the best of what was written is better than nothing.
        """
        rejected = tuple(self._rejected)
        if not self._poor and self._wasted == self._known:
            # It cost nothing: the next turn may as well try again.
            return self.give_up("no-plan", rejected=rejected or None)
        best = max(self._poor, key=lambda draft: draft.score, default=None)
        now, limits = self._now.usage.total, self._now.limits
        if best is not None and now > limits.urgent:
            return self.commit(best)
        # What is not good enough now is no better a turn later: wait for a step's worth of them.
        step = max(int(limits.room * self._now.policy.min_progress_ratio), 1)
        again = min(now + step, max(limits.urgent, now) + 1)
        if self._lease.put_off(self._now, until_tokens=again, spent=self._spent):
            self._hint_again()
        if best is None:
            return self._outcome("no-plan", rejected=rejected)
        return self._outcome(
            "below-quality", strategy=best.plan.strategy, quality=best.score, rejected=rejected
        )

    @property
    def _spent(self) -> Spent:
        """On all that was not committed."""
        return sum((each.spent for each in self._poor), self._wasted)

    def _hint_again(self) -> None:
        self._means.hints.send(jobs.COMPACT, self._ref)

    def _outcome(self, outcome: str, **more: object) -> Outcome:
        return Outcome.model_validate({"outcome": outcome, "session": self._ref.session, **more})
