"""The pipeline's stages in order: estimate, decide, plan, summarize, splice, commit.

Knows ports only. Each method is one Celery task's work: it may be lost, late or doubled, and is
safe to run again, because truth is in the session's keys and every write is conditional.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import cast

from turnmill.contract import jobs
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.errors import Transient
from turnmill.contract.legality import CallTracker
from turnmill.contract.outcomes import Compaction, Outcome
from turnmill.contract.render import render_head, system_message
from turnmill_worker.compaction.snapshot import Count, Plan, Snapshot
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies import plan as plan_compaction
from turnmill_worker.decide import Compact, Skip, decide
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.ports import (
    CountedTurn,
    Counter,
    Counters,
    Hints,
    Lease,
    SessionRef,
    Sessions,
    Summarizer,
    Uncounted,
)
from turnmill_worker.tokens import count_message

__all__ = ["Pipeline"]

BATCH_TURNS = 128
"""Turns counted between two looks at Redis: bounds memory, and the work a crash repeats."""

BATCHES = 8
"""Batches per job; a session that still has more is hinted again, behind the others."""

RETRY_AFTER_S = 5.0
"""When a summarizer's passing failure is tried again."""

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
        summarizers: Mapping[str, Summarizer],
    ) -> None:
        self._sessions = sessions
        self._hints = hints
        self._counters = counters
        self._summarizers = summarizers

    # estimate

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        turns = tokens = 0
        for _ in range(BATCHES):
            seen = self._sessions.uncounted(ref, most=BATCH_TURNS)
            if seen is None:
                return Outcome(outcome="unknown", session=ref.session)
            counter = self._counters(seen.policy.encoding)
            if seen.basis not in ("", counter.basis):
                self._recount(ref, seen, counter)
                continue
            tracker = CallTracker(seen.open_calls)
            counted = _count_turns(seen, counter, tracker)
            system_tokens = _system_tokens(counter, seen.system)
            usage = _usage_after(seen, counted, system_tokens)
            decision = decide(usage, seen.policy.limits(system_tokens))
            recorded = self._sessions.record_counts(
                ref,
                seen,
                basis=counter.basis,
                system_tokens=system_tokens,
                open_calls=tracker.open,
                due=isinstance(decision, Compact),
                turns=counted,
            )
            if recorded.stale:
                continue
            turns += len(counted)
            tokens += sum(turn.tokens for turn in counted)
            if recorded.newly_due:
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
            system_tokens=_system_tokens(counter, seen.system),
            context_tokens=count(render_head(snapshot.stored)),
            turns=[CountedTurn(t.seq, count(tracker.repair(t.shown))) for t in snapshot.turns],
        )

    def postpone(self, ref: SessionRef) -> None:
        """Keep the sweep from hinting a session at once whose job fails for no passing reason."""
        self._sessions.defer(ref, after_s=POSTPONE_S)

    # compact and summarize

    def compact(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target; a plan that needs a summary goes to its own queue."""
        return self._compact(ref, summarize=False)

    def summarize(self, ref: SessionRef) -> Outcome:
        """Bring the session to its target, asking the policy's summarizer when the plan does."""
        return self._compact(ref, summarize=True)

    def _compact(self, ref: SessionRef, *, summarize: bool) -> Outcome:
        with self._sessions.lease(ref) as lease:
            if lease is None:
                known = self._sessions.uncounted(ref, most=1) is not None
                return Outcome(outcome="leased" if known else "unknown", session=ref.session)
            snapshot = self._sessions.snapshot(ref)
            if snapshot is None:
                return Outcome(outcome="unknown", session=ref.session)
            if snapshot.pending_messages:
                # By their bounds they would leave too little room for a summary of the others.
                self.estimate(ref)
                snapshot = self._sessions.snapshot(ref) or snapshot
            match decide(snapshot.usage, snapshot.limits):
                case Skip():
                    return self._give_up(ref, lease, snapshot, "skipped")
                case Compact():
                    counter = self._counters(snapshot.policy.encoding)
                    return self._run_ladder(ref, lease, snapshot, counter, summarize=summarize)

    def _run_ladder(
        self,
        ref: SessionRef,
        lease: Lease,
        snapshot: Snapshot,
        counter: Counter,
        *,
        summarize: bool,
    ) -> Outcome:
        """The first rung whose result is good enough to commit; a rejected one is gone below."""
        count = counting(counter)
        rejected: list[str] = []
        while True:
            plan = plan_compaction(snapshot, count, below=rejected[-1] if rejected else "")
            if plan is None or plan.strategy in rejected:
                return self._give_up(ref, lease, snapshot, "no-plan")
            if plan.request is not None and not summarize:
                lease.retry(after_s=HANDOVER_S)
                self._hints.send(jobs.SUMMARIZE, ref)
                return Outcome(outcome="needs-summary", session=ref.session, strategy=plan.strategy)
            try:
                context = splice(plan, self._text(plan, counter), count)
            except SummaryRejected:
                rejected.append(plan.strategy)
                continue
            except Transient:
                lease.retry(after_s=RETRY_AFTER_S)
                raise
            return self._commit(ref, lease, snapshot, plan, context, rejected)

    def _text(self, plan: Plan, counter: Counter) -> str:
        if plan.request is None:
            return ""
        name = plan.snapshot.policy.summarizer
        return self._summarizers[name].summarize(plan.request, counter)

    def _commit(
        self,
        ref: SessionRef,
        lease: Lease,
        before: Snapshot,
        plan: Plan,
        context: StoredContext,
        rejected: Sequence[str],
    ) -> Outcome:
        record = _record(before, plan, context)
        committed = self._sessions.commit(
            ref, plan.snapshot, context, owner=lease.owner, record=record
        )
        if not committed.version:
            lease.retry(after_s=0)
            self._hints.send(jobs.COMPACT, ref)
            return Outcome(outcome="stale", session=ref.session, strategy=plan.strategy)
        if committed.again:
            self._hints.send(jobs.COMPACT, ref)
        return Outcome(
            outcome="committed",
            session=ref.session,
            turns=record.turns or None,
            elided=record.elided or None,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            strategy=plan.strategy,
            version=record.version,
            rejected=tuple(rejected) or None,
        )

    def _give_up(self, ref: SessionRef, lease: Lease, snapshot: Snapshot, outcome: str) -> Outcome:
        if lease.release(snapshot):
            self._hints.send(jobs.COMPACT, ref)
        return Outcome.model_validate({"outcome": outcome, "session": ref.session})


def counting(counter: Counter) -> Count:
    """Exact tokens of a list of messages by this counter, without the reply's opening."""
    return partial(_count_all, counter)


def _count_all(counter: Counter, messages: Sequence[JsonMessage]) -> int:
    return sum(count_message(counter, message) for message in messages)


def _count_turns(seen: Uncounted, counter: Counter, tracker: CallTracker) -> list[CountedTurn]:
    """Exact tokens of each turn as a provider gets it, stubs for dead calls included."""
    count = counting(counter)
    return [CountedTurn(turn.seq, count(tracker.repair(turn.messages))) for turn in seen.turns]


def _system_tokens(counter: Counter, system: str) -> int:
    return _cached_system_tokens(cast("Hashable", counter), system) if system else 0


@lru_cache(maxsize=1024)
def _cached_system_tokens(counter: Hashable, system: str) -> int:
    """Tokens of the system message; the same prompt comes with every burst of its session."""
    return count_message(cast("Counter", counter), system_message(system))


def _usage_after(seen: Uncounted, counted: Sequence[CountedTurn], system_tokens: int) -> Usage:
    return replace(
        seen.usage,
        system=system_tokens,
        tail=seen.usage.tail + sum(turn.tokens for turn in counted),
    )


def _record(before: Snapshot, plan: Plan, context: StoredContext) -> Compaction:
    covered = [t for group in plan.covered for t in group.turns]
    after = plan.snapshot.usage
    kept = sum(t.tokens for t in plan.snapshot.turns if t.seq > context.watermark)
    return Compaction(
        session=before.session,
        version=context.version,
        strategy=plan.strategy,
        from_watermark=before.stored.watermark,
        watermark=context.watermark,
        turns=len(covered),
        elided=len(context.elisions),
        tokens_before=before.usage.total,
        tokens_after=replace(after, summary=context.tokens, tail=kept).total,
    )
