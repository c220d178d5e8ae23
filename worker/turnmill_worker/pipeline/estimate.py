"""Estimate: every turn nobody has counted is counted, and the session put on the due list."""

from __future__ import annotations

from turnmill.contract import jobs
from turnmill.contract.legality import CallTracker
from turnmill.contract.outcomes import Outcome
from turnmill.contract.render import render_head
from turnmill_worker.compaction.count_limits import demands
from turnmill_worker.pipeline.batch import Batching
from turnmill_worker.pipeline.count_turns import (
    count_turns,
    counting,
    system_tokens,
    tally_after,
    usage_after,
)
from turnmill_worker.pipeline.decide import Compact, decide
from turnmill_worker.ports.counters import Counter, Counters
from turnmill_worker.ports.queues import Hints
from turnmill_worker.ports.sessions import Sessions
from turnmill_worker.ports.values import CountedTurn, SessionRef, Uncounted

__all__ = ["Estimating"]

BATCH_TURNS = 128
"""Turns counted between two looks at Redis: bounds memory, and the work a crash repeats."""

BATCHES = 8
"""Batches per job; a session that still has more is hinted again, behind the others."""


class Estimating:
    """Counts turns, exactly, once each."""

    def __init__(
        self, sessions: Sessions, hints: Hints, counters: Counters, batching: Batching | None
    ) -> None:
        self._sessions = sessions
        self._hints = hints
        self._counters = counters
        self._batching = batching

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
