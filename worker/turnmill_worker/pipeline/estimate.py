"""Estimate: counts every turn nobody has counted, and puts the session on the due list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from turnmill.contract import jobs
from turnmill.contract.context import Usage
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.legality import CallTracker
from turnmill.contract.render import render_head, system_message
from turnmill.contract.token_counters import Counter
from turnmill_worker.compaction.tally import Tally, exceeded, images, interactions
from turnmill_worker.pipeline.batch import Batches, NoBatches
from turnmill_worker.pipeline.decide import Compact, decide
from turnmill_worker.pipeline.ladder import Ports
from turnmill_worker.ports.values import CountedTurn, SessionRef, Uncounted

__all__ = ["Estimating"]

BATCH_TURNS = 128
"""Turns counted between two looks at Redis: bounds memory, and the work a crash repeats."""

BATCHES = 8
"""Batches per job; a session that still has more is hinted again, behind the others."""


class Estimating:
    """Counts turns, exactly, once each."""

    def __init__(self, ports: Ports, batches: Batches | NoBatches) -> None:
        self._sessions = ports.sessions
        self._hints = ports.hints
        self._counters = ports.counters
        self._batches = batches

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        turns = tokens = 0
        for _ in range(BATCHES):
            seen = self._sessions.uncounted(ref, most=BATCH_TURNS)
            if seen is None:
                return Outcome(outcome="unknown", session=ref.session)
            counter = self._counters(seen.policy.encoding, seen.policy.image_formula)
            system = _system_tokens(counter, seen.system)
            if seen.basis not in ("", counter.basis):
                self._recount(ref, seen, counter, system)
                continue
            tracker = CallTracker(seen.open_calls)
            counted = _count(seen, counter, tracker)
            usage = _usage_after(seen, counted, system)
            limits = seen.policy.limits(system)
            urgent = usage.total > limits.urgent
            decision = decide(usage, limits, exceeded(seen.policy, _tally_after(seen, counted)))
            recorded = self._sessions.record_counts(
                ref,
                seen,
                basis=counter.basis,
                system_tokens=system,
                open_calls=tracker.open,
                due=isinstance(decision, Compact) and usage.total >= seen.put_off,
                urgent=urgent,
                turns=counted,
            )
            if recorded.stale:
                continue
            turns += len(counted)
            tokens += sum(turn.tokens for turn in counted)
            # A session that awaits a batch is due only at its next look, which may be too late.
            waits = urgent and seen.policy.batch and self._batches.awaits(ref)
            if recorded.newly_due or waits:
                self._hints.send(jobs.COMPACT, ref)
            if not recorded.waiting:
                return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)
        self._hints.send(jobs.ESTIMATE, ref)
        return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)

    def _recount(self, ref: SessionRef, seen: Uncounted, counter: Counter, system: int) -> None:
        """Count again what was counted under another basis: the policy's encoding changed."""
        snapshot = self._sessions.snapshot(ref)
        if snapshot is None:
            return
        count, tracker = counter.count_messages, CallTracker()
        self._sessions.recount(
            ref,
            seen,
            snapshot,
            basis=counter.basis,
            system_tokens=system,
            context_tokens=count(render_head(snapshot.stored)),
            turns=[CountedTurn(t.seq, count(tracker.repair(t.shown))) for t in snapshot.turns],
        )


def _count(seen: Uncounted, counter: Counter, tracker: CallTracker) -> list[CountedTurn]:
    """Exact tokens of each turn as a provider gets it, stubs for dead calls included."""
    return [
        CountedTurn(
            turn.seq,
            counter.count_messages(tracker.repair(turn.messages)),
            images=images(turn.messages),
            interactions=interactions(turn.messages),
            messages=len(turn.messages),
        )
        for turn in seen.turns
    ]


@lru_cache(maxsize=1024)
def _system_tokens(counter: Counter, system: str) -> int:
    """Tokens of the system message; cached, because every burst brings the same prompt."""
    return counter.count_messages([system_message(system)]) if system else 0


def _usage_after(seen: Uncounted, counted: Sequence[CountedTurn], system: int) -> Usage:
    """The session's tokens by part once these turns are counted, too."""
    tail = seen.usage.tail + sum(turn.tokens for turn in counted)
    return replace(seen.usage, system=system, tail=tail)


def _tally_after(seen: Uncounted, counted: Sequence[CountedTurn]) -> Tally:
    """The session's other counts once these turns are counted, too."""
    return replace(
        seen.tally,
        images=seen.tally.images + sum(turn.images for turn in counted),
        interactions=seen.tally.interactions + sum(turn.interactions for turn in counted),
        history_tokens=seen.tally.history_tokens + sum(turn.tokens for turn in counted),
    )
