"""The ladder: one compaction under a lease, rung after rung, until a draft can be committed."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turnmill.contract import jobs
from turnmill.contract.errors import Transient
from turnmill.contract.estimate import Counter, Counters
from turnmill.contract.job_outcomes import Compaction, Outcome
from turnmill.contract.policy import OFFLINE, Policy
from turnmill.contract.results import Waits
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.choose import plan as plan_compaction
from turnmill_worker.compaction.with_digest import known_after
from turnmill_worker.errors import SummaryDeferred, SummaryRejected
from turnmill_worker.pipeline.summarize import Draft, DraftWriter, Later
from turnmill_worker.ports.protocols import Hints, Lease, Sessions, Waiting
from turnmill_worker.ports.values import FIRST_PAUSE_S, LONGEST_PAUSE_S, SessionRef
from turnmill_worker.spending import Spent
from turnmill_worker.tokens import CountedOnce

HANDOVER_S = 5.0
"""When the sweep doubts that a summary job handed on was ever received."""

JITTER = 0.25
"""Share of a pause by which it may be longer: sessions that failed together come back apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What the stages of a process reach outside.

    Attributes:
        chance: a number in 0..1, another each time: pauses of many sessions must not end together.
    """

    sessions: Sessions
    hints: Hints
    counters: Counters
    waiting: Waiting | None
    chance: Callable[[], float]

    def counter(self, policy: Policy) -> Counter:
        """What one job counts with."""
        return CountedOnce(self.counters(policy.encoding, policy.image_formula))

    def await_turn(self, ref: SessionRef, *, room: float) -> None:
        """Have the session wait for a summary, and allow for one more to be written."""
        # One that waits already has a message, unless some were lost.
        waiting = 0 if self.waiting is None else self.waiting.add(ref, room=room)
        if not waiting or self.hints.waiting(jobs.SUMMARIZE) < waiting:
            self.hints.send(jobs.SUMMARIZE, ref)


class Ladder:
    """One compaction of one session.

    Attributes:
        snapshot: what is planned from.
    """

    def __init__(
        self,
        ports: Ports,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        writer: DraftWriter,
    ) -> None:
        self.ref = ref
        self.snapshot = self._now = snapshot
        self._ports = ports
        self._lease = lease
        self._counter = ports.counter(snapshot.policy)
        self._writer = writer
        self._poor: list[Draft] = []
        self._rejected: list[str] = []
        self._failed: tuple[str, ...] = ()
        self._items = Tally[str]()
        self._known = self._wasted = snapshot.tried.spent

    def use(self, writer: DraftWriter, planned: Snapshot | None = None) -> None:
        """Have another write, and plan from an older state of the session, if given."""
        self._writer = writer
        self.snapshot = planned or self.snapshot

    def charge(self, spent: Spent) -> None:
        """Count what was spent for nothing; the next commit records it."""
        self._known += spent
        self._wasted += spent

    def climb(self, *, summarize: bool) -> Outcome:
        """The first rung whose result is good enough to commit; a rejected one is gone below.

        ``summarize`` says that this job may ask a summarizer; else a plan that needs one is handed
        on.
        """
        self._look_back()
        while True:
            below = self._rejected[-1] if self._rejected else ""
            plan = plan_compaction(self.snapshot, self._counter, below=below)
            if plan is None or plan.strategy in self._rejected:
                return self._end()
            if plan.asks and not summarize:
                return self.hand_on(plan.strategy)
            try:
                found = self._writer.best(plan, self._counter, patient=self._may_wait())
            except SummaryRejected as error:
                self._wasted += error.spent
                self._failed += error.failed
                self._items.update(error.items)
                self._rejected.append(plan.strategy)
                continue
            except SummaryDeferred as error:
                self._wasted += error.spent
                return self._defer(error)
            except Transient:
                self._lease.retry(after_s=FIRST_PAUSE_S)
                raise
            if isinstance(found, Later):
                return self.wait(found, plan.strategy)
            if found.is_good_enough:
                return self.commit(found)
            self._rejected.append(plan.strategy)
            self._poor.append(found)

    def hand_on(self, strategy: str | None = None, *, waits: Waits = "turn") -> Outcome:
        """Leave the session to a job that may ask a model."""
        self._lease.retry(after_s=HANDOVER_S, waits=waits)
        self._ports.await_turn(self.ref, room=self._now.limits.share_left(self._now.usage.total))
        return self._outcome("needs-summary", strategy=strategy)

    def wait(self, later: Later, strategy: str | None = None) -> Outcome:
        """Leave the session to a job that looks for its summary."""
        self._lease.retry(after_s=later.after_s, waits="batch")
        return self._outcome("batched", strategy=strategy)

    def commit(self, draft: Draft) -> Outcome:
        """Write the draft's context, if nobody else committed meanwhile."""
        poor = [each for each in self._poor if each is not draft]
        others = sum((each.spent for each in poor), self._wasted)
        draft = replace(draft, wasted=draft.wasted + others)
        record = self._with_failures(draft.record, poor)
        committed = self._ports.sessions.commit(
            self.ref,
            draft.plan.snapshot,
            draft.context,
            known=known_after(draft.plan, self._counter),
            owner=self._lease.owner,
            record=record,
            detail=draft.detail,
        )
        if not committed.version:
            stale = draft.plan.asks
            self._lease.retry(after_s=0, spent=draft.spent, stale=stale)
            self._hint_again()
            return self._outcome("stale", strategy=record.strategy)
        if committed.again:
            self._hint_again()
        return self._outcome(
            "committed",
            turns=record.turns or None,
            elided=record.elided or None,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            strategy=record.strategy,
            model=record.model or None,
            version=record.version,
            quality=record.quality,
            rejected=tuple(r for r in self._rejected if r != record.strategy) or None,
            failed=record.failed or None,
            items=record.items or None,
            cost_usd=record.cost_usd or None,
        )

    def _with_failures(self, record: Compaction, poor: Sequence[Draft]) -> Compaction:
        """The record with why models did not write it on the rungs above, too."""
        failed, items = self._failed, Tally(record.items) + self._items
        for each in poor:
            if each.failed or each.record.model not in ("", OFFLINE):
                failed += (*each.failed, "below-quality")
            items.update({why: many for why, many in each.items.items() if why != "kept"})
        failed += record.failed
        return record.model_copy(update={"failed": failed, "items": dict(items)})

    def give_up(self, outcome: str, **more: object) -> Outcome:
        """Leave the session as it is, until something changes."""
        if self._lease.release(self._now, spent=self._wasted):
            self._hint_again()
        return self._outcome(outcome, **more)

    def skip(self, idle_s: float | None) -> Outcome:
        """Leave a session that is within its limits; due again after being quiet for that long."""
        if self._lease.release(self._now, spent=self._wasted, idle_s=idle_s):
            self._hint_again()
        return self._outcome("skipped")

    def _look_back(self) -> None:
        """Give ``managed`` the covered turns no receipt names: a view of its runs shows them."""
        snapshot = self.snapshot
        if "managed" in snapshot.exceeded:
            stored = snapshot.stored
            first = max((receipt.last_seq for receipt in stored.receipts), default=0) + 1
            earlier = self._ports.sessions.covered(
                self.ref, snapshot.epoch, first_seq=first, last_seq=stored.watermark
            )
            self.snapshot = replace(snapshot, earlier=earlier)

    def _may_wait(self) -> bool:
        """Whether the session has room left, and has not waited too often since its last commit."""
        has_room = self._now.usage.total <= self._now.limits.urgent
        return has_room and self._now.tried.deferrals < self._now.policy.model_attempts

    def _defer(self, error: SummaryDeferred) -> Outcome:
        """Wait for the models, unless turns that came meanwhile leave no room to."""
        # An endpoint that wishes for longer than the longest pause is not believed, as by its gate.
        pause_s = max(FIRST_PAUSE_S * 2.0**self._now.tried.deferrals, error.retry_after_s or 0.0)
        after_s = min(pause_s, LONGEST_PAUSE_S) * (1 + JITTER * self._ports.chance())
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
        # A few more turns do not make good enough what was not: wait for a step's worth of them.
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
        self._ports.hints.send(jobs.COMPACT, self.ref)

    def _outcome(self, outcome: str, **more: object) -> Outcome:
        return Outcome.model_validate({"outcome": outcome, "session": self.ref.session, **more})
