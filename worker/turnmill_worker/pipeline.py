"""The pipeline's stages in order: estimate, decide, plan, summarize, splice, commit.

Knows ports only. Each method is one Celery task's work: it may be lost, late or doubled, and is
safe to run again, because truth is in the session's keys and every write is conditional.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from turnmill.contract import jobs
from turnmill.contract.errors import SessionBusy, Transient, UnknownSession
from turnmill.contract.legality import CallTracker
from turnmill.contract.outcomes import Outcome
from turnmill.contract.render import render_head
from turnmill.contract.results import SummarizationResult
from turnmill_worker.batching import Batching, Later, Look, Written
from turnmill_worker.compaction.apart import with_facts
from turnmill_worker.compaction.awaited import as_of
from turnmill_worker.compaction.demands import demands
from turnmill_worker.compaction.force import force as force_plan
from turnmill_worker.compaction.snapshot import LoggedTurn, Plan, Snapshot, previous_text
from turnmill_worker.compaction.strategies import plan as plan_compaction
from turnmill_worker.counting import (
    count_turns,
    counting,
    system_tokens,
    tally_after,
    usage_after,
)
from turnmill_worker.decide import Compact, Skip, decide
from turnmill_worker.deferring import may_wait, pause_s
from turnmill_worker.errors import SummaryDeferred, SummaryRejected
from turnmill_worker.ports import (
    Counter,
    Counters,
    Hints,
    Lease,
    Refusal,
    Sessions,
    Summarizers,
    Templates,
    Waiting,
)
from turnmill_worker.spending import Spent
from turnmill_worker.values import CountedTurn, Failed, SessionRef, Tried, Uncounted
from turnmill_worker.writing import Draft, Writer

__all__ = ["Pipeline"]

BATCH_TURNS = 128
"""Turns counted between two looks at Redis: bounds memory, and the work a crash repeats."""

BATCHES = 8
"""Batches per job; a session that still has more is hinted again, behind the others."""

RETRY_AFTER_S = 5.0
"""When a summarizer's passing failure is tried again."""

MOST_STALE = 3
"""Summaries written for nothing, because settings changed meanwhile, before no model is asked."""

POSTPONE_S = 60.0
"""When a session whose job met a defect is looked at again."""

HANDOVER_S = 5.0
"""When the sweep doubts that a summary job handed on was ever received."""


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
        self._hints = hints
        self._waiting = waiting
        self._counters = counters
        self._summarizers = summarizers
        self._templates = templates
        self._writer = Writer(summarizers, templates)
        self._batching = batching
        self._chance = chance

    # estimate

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        turns = tokens = 0
        for _ in range(BATCHES):
            seen = self._sessions.uncounted(ref, most=BATCH_TURNS)
            if seen is None:
                return Outcome(outcome="unknown", session=ref.session)
            counter = self._counters(seen.policy.encoding, seen.policy.image_formula)
            if seen.basis not in ("", counter.basis):
                self._recount(ref, seen, counter)
                continue
            tracker = CallTracker(seen.open_calls)
            counted = count_turns(seen, counter, tracker)
            system = system_tokens(counter, seen.system)
            usage = usage_after(seen, counted, system)
            asked = demands(seen.policy, tally_after(seen, counted))
            limits = seen.policy.limits(system)
            decision = decide(usage, limits, asked)
            recorded = self._sessions.record_counts(
                ref,
                seen,
                basis=counter.basis,
                system_tokens=system,
                open_calls=tracker.open,
                due=isinstance(decision, Compact) and usage.total >= seen.put_off,
                urgent=usage.total > limits.urgent,
                turns=counted,
            )
            if recorded.stale:
                continue
            turns += len(counted)
            tokens += sum(turn.tokens for turn in counted)
            if recorded.newly_due or (usage.total > limits.urgent and self._awaits(ref, seen)):
                self._hints.send(jobs.COMPACT, ref)
            if not recorded.waiting:
                return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)
        self._hints.send(jobs.ESTIMATE, ref)
        return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)

    def _recount(self, ref: SessionRef, seen: Uncounted, counter: Counter) -> None:
        """Count again what was counted under another basis: the policy's encoding changed."""
        snapshot = self._sessions.snapshot(ref)
        if snapshot is None:
            return
        count = counting(counter)
        tracker = CallTracker()
        self._sessions.recount(
            ref,
            seen,
            snapshot,
            basis=counter.basis,
            system_tokens=system_tokens(counter, seen.system),
            context_tokens=count(render_head(snapshot.stored)),
            turns=[CountedTurn(t.seq, count(tracker.repair(t.shown))) for t in snapshot.turns],
        )

    def _awaits(self, ref: SessionRef, seen: Uncounted) -> bool:
        """Whether the session awaits a batch: its due time is that of the next look."""
        batching = self._batching
        return batching is not None and seen.policy.batch and batching.awaits(ref)

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
        if self._waiting is None:
            return hinted
        with suppress(Transient):  # the job itself will say so
            return self._waiting.take() or hinted
        return hinted

    def summarize(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target, asking the policy's summarizer when the plan does."""
        if self._batching is not None:
            # Here, because a session of the name of a forgotten one may have begun since.
            self._batching.forget(ref)
        return self._compact(ref, summarize=True)

    def _compact(self, ref: SessionRef, *, summarize: bool) -> Outcome:
        claim = self._sessions.lease(ref)
        with claim as lease:
            if lease is None:
                return self._refused(ref, claim.refusal, summarize=summarize)
            snapshot = self._sessions.snapshot(ref)
            if snapshot is None:
                return Outcome(outcome="unknown", session=ref.session)
            if snapshot.pending_messages:
                # By their bounds they would leave too little room for a summary of the others.
                self.estimate(ref)
                snapshot = self._sessions.snapshot(ref) or snapshot
            asked = demands(snapshot.policy, snapshot.tally)
            batching = self._batching
            if batching is not None:
                found = batching.look(ref, snapshot, asked, ask=summarize)
                if found is not None and found != "given-up":
                    return self._awaited(ref, lease, snapshot, found)
                if found == "given-up" or not batching.suits(snapshot, asked):
                    batching = None
            if "managed" in asked:
                snapshot = replace(snapshot, earlier=self._earlier(ref, snapshot))
            return self._decide(ref, lease, snapshot, asked, batching, summarize=summarize)

    def _refused(self, ref: SessionRef, refusal: Refusal, *, summarize: bool) -> Outcome:
        if refusal == "unknown" and self._batching is not None:
            # Its keys expired while it awaited a batch; a forgotten one left no note.
            if summarize:
                self._batching.end(ref)
            elif self._batching.awaits(ref):
                self._await_turn(ref, room=0.0)
        return Outcome(outcome=refusal, session=ref.session)

    def forgotten(self, ref: SessionRef) -> None:
        """Have the batches ended that forgotten sessions awaited, by a job that may ask a model."""
        if self._batching is not None and self._batching.abandons(ref):
            self._await_turn(ref, room=0.0)

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
                return self._give_up(ref, lease, snapshot, "skipped")
            case Compact():
                counter = self._counters(snapshot.policy.encoding, snapshot.policy.image_formula)
                if batching is not None:
                    # Bounds of turns not counted yet could not be told again later.
                    snapshot = as_of(snapshot, snapshot.counted_seq)
                return self._run_ladder(
                    ref, lease, snapshot, counter, summarize=summarize, batching=batching
                )

    def _awaited(self, ref: SessionRef, lease: Lease, snapshot: Snapshot, found: Look) -> Outcome:
        """What a summary awaited from a batch leads to."""
        match found:
            case Later(after_s):
                lease.retry(after_s=after_s)
                return Outcome(outcome="batched", session=ref.session)
            case Written(planned, summarizer):
                others = self._summarizers(snapshot.policy)[1:]
                writer = Writer(lambda _: [summarizer, *others], self._templates)
                counter = self._counters(planned.policy.encoding, planned.policy.image_formula)
                outcome = self._run_ladder(
                    ref, lease, planned, counter, summarize=True, writer=writer, now=snapshot
                )
                # What a deferred one got from its batch is paid for: it looks again.
                if self._batching is not None and outcome.outcome != "deferred":
                    self._batching.end(ref)
                return outcome
            case _:
                return self._hand_on(ref, lease, snapshot)

    def _hand_on(
        self, ref: SessionRef, lease: Lease, snapshot: Snapshot, strategy: str | None = None
    ) -> Outcome:
        """Leave the session to a job that may ask a model."""
        lease.retry(after_s=HANDOVER_S)
        left = snapshot.limits.hard - snapshot.usage.total
        self._await_turn(ref, room=left / max(snapshot.limits.room, 1))
        return Outcome(outcome="needs-summary", session=ref.session, strategy=strategy)

    def _await_turn(self, ref: SessionRef, *, room: float) -> None:
        """Have the session wait for a summary, and allow for one more to be written."""
        if self._waiting is not None:
            self._waiting.add(ref, room=room)
        self._hints.send(jobs.SUMMARIZE, ref)

    def _batched(
        self, ref: SessionRef, lease: Lease, plan: Plan, counter: Counter, batching: Batching
    ) -> Outcome | None:
        """The plan's summary is awaited from a batch now; None when it has to be asked live."""
        # With what a live request would say of facts: the answer is asked for by its request.
        waiting = batching.begin(ref, with_facts(plan, counting(counter)), counter)
        if waiting is None:
            return None
        lease.retry(after_s=waiting.after_s)
        return Outcome(outcome="batched", session=ref.session, strategy=plan.strategy)

    def _earlier(self, ref: SessionRef, snapshot: Snapshot) -> tuple[LoggedTurn, ...]:
        """The covered turns no receipt names: what a managed view may look back at."""
        named = max((receipt.last_seq for receipt in snapshot.stored.receipts), default=0)
        return self._sessions.covered(
            ref, snapshot.epoch, first_seq=named + 1, last_seq=snapshot.stored.watermark
        )

    def _run_ladder(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        counter: Counter,
        *,
        summarize: bool,
        batching: Batching | None = None,
        writer: Writer | None = None,
        now: Snapshot | None = None,
    ) -> Outcome:
        """The first rung whose result is good enough to commit; a rejected one is gone below."""
        count = counting(counter)
        tried = self._tried(ref, snapshot) if summarize else Tried()
        if tried.stale >= MOST_STALE:
            # Its prompt may change with every step: what no model writes is there before the next.
            writer, batching = Writer(lambda p: self._summarizers(p)[-1:], self._templates), None
        wasted = tried.spent
        rejected: list[str] = []
        poor: list[Draft] = []
        while True:
            plan = plan_compaction(snapshot, count, below=rejected[-1] if rejected else "")
            if plan is None or plan.strategy in rejected:
                break
            if plan.requests and not summarize:
                return self._hand_on(ref, lease, snapshot, plan.strategy)
            if batching is not None:
                batched = self._batched(ref, lease, plan, counter, batching)
                if batched is not None:
                    return batched
            try:
                patient = may_wait(now or snapshot, tried)
                draft, failed = (writer or self._writer).best(
                    snapshot, plan, counter, count, patient=patient
                )
            except SummaryRejected as error:
                wasted += error.spent
                rejected.append(plan.strategy)
                continue
            except SummaryDeferred as error:
                wasted = sum((each.spent for each in poor), wasted + error.spent)
                return self._defer(ref, lease, snapshot, error, tried.deferrals, wasted)
            except Transient:
                lease.retry(after_s=RETRY_AFTER_S)
                raise
            if draft.is_good_enough:
                lost = sum((each.spent for each in poor), wasted)
                done = self._commit(ref, lease, draft, rejected, lost)
                return done.model_copy(update={"failed": failed or None})
            rejected.append(plan.strategy)
            poor.append(draft)
        return self._end_of_ladder(ref, lease, now or snapshot, poor, rejected, wasted)

    def _tried(self, ref: SessionRef, snapshot: Snapshot) -> Tried:
        """What came of asking models before; nobody looks where none is asked."""
        if snapshot.policy.summarizer == "extractive":
            return Tried()
        return self._sessions.tried(ref)

    def _defer(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        error: SummaryDeferred,
        times: int,
        spent: Spent,
    ) -> Outcome:
        """Wait for the models, unless turns that came meanwhile leave no room to."""
        after_s = pause_s(times, at_least_s=error.retry_after_s, chance=self._chance())
        if lease.defer(snapshot, after_s=after_s, spent=spent):
            after_s = 0.0
            self._hints.send(jobs.COMPACT, ref)
        return Outcome(
            outcome="deferred",
            session=ref.session,
            failed=error.failed,
            retry_s=round(after_s, 1),
        )

    def _end_of_ladder(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        poor: Sequence[Draft],
        rejected: Sequence[str],
        wasted: Spent,
    ) -> Outcome:
        """Nothing was good enough: the previous context stays, as long as there is room.

        Above the hard limit every read cuts turns off without a word of summary: before it comes
        to that, the best of what was written is better than nothing.
        """
        if not poor:
            given_up = self._give_up(ref, lease, snapshot, "no-plan", wasted)
            return given_up.model_copy(update={"rejected": tuple(rejected) or None})
        best = max(poor, key=lambda draft: draft.score)
        if snapshot.usage.total > snapshot.limits.urgent:
            lost = sum((each.spent for each in poor if each is not best), wasted)
            others = [r for r in rejected if r != best.plan.strategy]
            return self._commit(ref, lease, best, others, lost)
        # What is not good enough now is no better a turn later: wait for a step's worth of them.
        step = max(int(snapshot.limits.room * snapshot.policy.min_progress_ratio), 1)
        again = min(snapshot.usage.total + step, snapshot.limits.urgent + 1)
        spent = sum((each.spent for each in poor), wasted)
        if lease.put_off(snapshot, until_tokens=again, spent=spent):
            self._hints.send(jobs.COMPACT, ref)
        return Outcome(
            outcome="below-quality",
            session=ref.session,
            strategy=best.plan.strategy,
            quality=best.score,
            rejected=tuple(rejected),
        )

    def _commit(
        self,
        ref: SessionRef,
        lease: Lease,
        draft: Draft,
        rejected: Sequence[str],
        wasted: Spent,
    ) -> Outcome:
        draft = replace(draft, wasted=draft.wasted + wasted)
        record = draft.record
        committed = self._sessions.commit(
            ref,
            draft.before,
            draft.plan.snapshot,
            draft.context,
            facts=draft.plan.facts,
            owner=lease.owner,
            record=record,
            detail=draft.detail,
        )
        if not committed.version:
            lease.retry(after_s=0, spent=draft.spent, stale=bool(draft.plan.requests))
            self._hints.send(jobs.COMPACT, ref)
            return Outcome(outcome="stale", session=ref.session, strategy=record.strategy)
        self._hints.send(jobs.ARCHIVE, ref)
        if committed.again:
            self._hints.send(jobs.COMPACT, ref)
        return Outcome(
            outcome="committed",
            session=ref.session,
            turns=record.turns or None,
            elided=record.elided or None,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            strategy=record.strategy,
            version=record.version,
            quality=record.quality,
            rejected=tuple(rejected) or None,
        )

    def _give_up(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        outcome: str,
        spent: Spent | None = None,
    ) -> Outcome:
        if lease.release(snapshot, spent=spent):
            self._hints.send(jobs.COMPACT, ref)
        return Outcome.model_validate({"outcome": outcome, "session": ref.session})

    # asked for

    def force(self, ref: SessionRef, *, template: str) -> SummarizationResult:
        """Summarize all but the newest turns now, whatever the limits say.

        Raises:
            UnknownSession: there is no such session.
            SessionBusy: another worker is compacting it, and takes long.
            InvalidName, UnknownTemplate, InvalidTemplate: the template cannot be used.
        """
        self._writer.check(template)
        with self._sessions.lease(ref, forced=True) as lease:
            self.estimate(ref)
            snapshot = self._sessions.snapshot(ref)
            if snapshot is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            if lease is None:
                raise SessionBusy(f"another worker is compacting {ref.session!r}; try again")
            if self._batching is not None:
                self._batching.end(ref)
            counter = self._counters(snapshot.policy.encoding, snapshot.policy.image_formula)
            count = counting(counter)
            plan = force_plan(snapshot, count, template=template)
            if plan is None:
                lease.retry(after_s=0)  # whether the ladder has work is for the next to say
                return _nothing_done(snapshot, "no turns beside the newest")
            tried = self._tried(ref, snapshot)
            try:
                draft, _ = self._writer.best(snapshot, plan, counter, count)
            except SummaryRejected as error:
                # Whether the ladder has work is for the next to say.
                lease.retry(after_s=0, spent=tried.spent + error.spent)
                return _nothing_done(snapshot, f"the summary was refused: {error}")
            except Transient:
                lease.retry(after_s=RETRY_AFTER_S)
                raise
            outcome = self._commit(ref, lease, draft, (), tried.spent)
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
