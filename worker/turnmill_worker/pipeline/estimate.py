"""Estimate: counts every turn nobody has counted, and puts the session on the due list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from turnmill.contract import jobs
from turnmill.contract.context import Limits, Usage
from turnmill.contract.correction import Correction
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.keys import shard_of
from turnmill.contract.legality import CallTracker
from turnmill.contract.render import render_head, system_message
from turnmill.contract.tools import count_tools
from turnmill_worker.compaction.snapshot import Tally, exceeded, images, interactions
from turnmill_worker.pipeline.batch import Batches, NoBatches
from turnmill_worker.pipeline.decide import Compact, decide, next_look, waits_for_quiet
from turnmill_worker.pipeline.ladder import HANDOVER_S, Ports
from turnmill_worker.ports.values import (
    NOTHING_LEARNED,
    CountedTurn,
    Counts,
    Learned,
    Look,
    SessionRef,
    Uncounted,
)

BATCH_TURNS = 128
"""Turns counted between two looks at Redis: bounds memory, and the work a crash repeats."""

BATCHES = 8
"""Batches of one session; one that still has more is hinted again, behind the others."""

SESSIONS = 64
"""Sessions of a shard counted between two looks at who waits there."""

ROUNDS = 4
"""Such looks per job; a shard where sessions still wait is hinted again."""


class Estimating:
    """Counts turns, exactly, once each."""

    def __init__(self, ports: Ports, batches: Batches | NoBatches) -> None:
        self._ports = ports
        self._sessions = ports.sessions
        self._batches = batches

    def estimate(self, ref: SessionRef) -> Outcome:
        """Count every turn nobody has counted, decide, and put the session on the due list."""
        turns = tokens = 0
        for _ in range(BATCHES):
            seen = self._sessions.uncounted(ref, most=BATCH_TURNS)
            if seen is None:
                return Outcome(outcome="unknown", session=ref.session)
            counter = self._ports.counters(seen.policy.encoding, seen.policy.image_formula)
            system, tools = _system_tokens(counter, seen.system), _tools(counter, seen.tools)
            if seen.basis not in ("", counter.basis):
                self._recount(ref, seen, counter, system, tools)
                continue
            tracker = self._tracker(ref, seen)
            counted = _count(seen, counter, tracker)
            after = _After.of(seen, counted, system + tools)
            counts = Counts(
                basis=counter.basis,
                system_tokens=system,
                tools_tokens=tools,
                open_calls=tracker.open,
                turns=counted,
                due=after.is_due,
                urgent=after.is_urgent,
                handover_s=HANDOVER_S if seen.summarized else 0.0,
                idle_s=0.0 if tracker.open else after.idle_s,
                look=after.look,
                learned=after.learned,
            )
            recorded = self._sessions.record_counts(ref, seen, counts)
            if recorded.stale:
                continue
            turns += len(counted)
            tokens += sum(turn.tokens for turn in counted)
            if recorded.newly_due or self._waits_too_long(ref, after):
                self._send_on(ref, after)
            if not recorded.waiting:
                return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)
        self._ports.hints.send(jobs.ESTIMATE, ref)
        return Outcome(outcome="estimated", session=ref.session, turns=turns, tokens=tokens)

    def _tracker(self, ref: SessionRef, seen: Uncounted) -> CallTracker:
        """Follows the uncounted turns; it knows all turns before if a result among them is late."""
        looking = CallTracker(seen.open_calls)
        late = [looking.feed(message)[1] for turn in seen.turns for message in turn.messages]
        snapshot = self._sessions.snapshot(ref) if any(late) else None
        if snapshot is None:
            return CallTracker(seen.open_calls)
        tracker = CallTracker.after(snapshot.stored)
        for turn in snapshot.turns:
            if turn.seq <= seen.counted_seq:
                tracker.follow(turn.original)
        return tracker

    def waiting(self, hinted: Sequence[SessionRef]) -> Iterator[SessionRef]:
        """Sessions of the same shards to count as well, as long as there are any.

        A push hints none of them while this job is on its way: it counts them all. Those that
        cannot be counted are put off, or end the job.
        """
        for ref in {shard_of(ref.session): ref for ref in hinted}.values():
            for _ in range(ROUNDS):
                found = self._sessions.overdue(ref, most=SESSIONS)
                if not found:
                    break
                yield from found
            else:
                self._ports.hints.send(jobs.ESTIMATE, ref)

    def _waits_too_long(self, ref: SessionRef, after: _After) -> bool:
        """A session that awaits a batch is due only at its next look, which may be too late."""
        return after.is_urgent and after.seen.policy.batch and self._batches.awaits(ref)

    def _send_on(self, ref: SessionRef, after: _After) -> None:
        """Hint the job that will compact it: mostly it takes what the last compaction took."""
        if after.seen.summarized:
            self._ports.await_turn(ref, room=after.limits.share_left(after.usage.total))
        else:
            self._ports.hints.send(jobs.COMPACT, ref)

    def _recount(
        self, ref: SessionRef, seen: Uncounted, counter: Counter, system: int, tools: int
    ) -> None:
        """Count again what was counted under another basis: the policy's encoding changed."""
        snapshot = self._sessions.snapshot(ref)
        if snapshot is None:
            return
        count, tracker = counter.count_messages, CallTracker.after(snapshot.stored)
        self._sessions.recount(
            ref,
            seen,
            snapshot,
            basis=counter.basis,
            system_tokens=system,
            tools_tokens=tools,
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


@lru_cache(maxsize=256)
def _tools(counter: Counter, body: bytes) -> int:
    """Tokens of the tools, cached likewise."""
    return count_tools(counter.count, body)


def _known(seen: Uncounted, counted: Sequence[CountedTurn], usage: Usage) -> Correction:
    """What is known of the provider's tokens, with what the agent told last."""
    if seen.told is None:
        return seen.correction
    turns = [(turn.seq, turn.tokens) for turn in counted]
    tokens = seen.told.counted(seen.version, seen.counted_seq, usage, turns)
    return seen.correction if tokens is None else seen.correction.after(seen.told.tokens, tokens)


@dataclass(frozen=True, slots=True)
class _After:
    """A session once these turns are counted, too."""

    seen: Uncounted
    counted: Sequence[CountedTurn]
    usage: Usage
    limits: Limits
    known: Correction

    @classmethod
    def of(cls, seen: Uncounted, counted: Sequence[CountedTurn], system: int) -> Self:
        """The session's tokens by part, and its limits."""
        tail = seen.usage.tail + sum(turn.tokens for turn in counted)
        usage = replace(seen.usage, system=system, tail=tail)
        known = _known(seen, counted, usage)
        return cls(seen, counted, usage, seen.policy.limits(system, known.ratio), known)

    @property
    def is_due(self) -> bool:
        """Whether a compaction is wanted."""
        decision = decide(self.usage, self.limits, exceeded(self.seen.policy, self._tally))
        return isinstance(decision, Compact) and self.usage.total >= self.seen.put_off

    @property
    def is_urgent(self) -> bool:
        """Whether there is no room to wait."""
        return self.usage.total > self.limits.urgent

    @property
    def idle_s(self) -> float:
        """After how long without a push it is compacted all the same; 0 when it is not."""
        put_off, policy = self.seen.put_off, self.seen.policy
        waits = waits_for_quiet(policy, self.usage, self.limits, put_off=put_off)
        return policy.compact_when_idle_s if waits else 0.0

    @property
    def learned(self) -> Learned:
        """What was learned from what the agent told, if anything."""
        told = self.seen.told
        if told is None or self.known == self.seen.correction:
            return NOTHING_LEARNED
        return Learned(told.encode(), self.known.encode())

    @property
    def look(self) -> Look:
        """When the next turns must be counted."""
        return next_look(
            self.seen.policy,
            self.usage,
            self.limits,
            put_off=self.seen.put_off,
            counted=sum(turn.tokens for turn in self.counted),
            bounds=[turn.bound for turn in self.seen.turns],
        )

    @property
    def _tally(self) -> Tally:
        known, counted = self.seen.tally, self.counted
        return replace(
            known,
            images=known.images + sum(turn.images for turn in counted),
            interactions=known.interactions + sum(turn.interactions for turn in counted),
            history_tokens=known.history_tokens + sum(turn.tokens for turn in counted),
        )
