"""The pool a plan leads to, and what its summary is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from turnmill.contract.context import SummaryEvent
from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.compaction.pool.pooled import PooledLine
from turnmill_worker.compaction.strategies.rolling import summary_budget

_POOL_SHARE: Final = 4
"""The pool's size, in summaries."""

_LEAST_TOKENS: Final = 4_096
_MOST_TOKENS: Final = 16_384
"""For any context: every compaction loads and writes the pool."""

__all__ = ["pool_tokens", "with_pool"]


def pool_tokens(summary_tokens: int) -> int:
    """Most tokens of the pool, roughly, beside summaries of so many."""
    return min(max(_POOL_SHARE * summary_tokens, _LEAST_TOKENS), _MOST_TOKENS)


def with_pool(plan: Plan, count: CountText) -> Plan:
    """The plan with the pool it leads to, and its summaries chosen from what that holds."""
    snapshot, request = plan.snapshot, plan.request
    if not plan.covered:
        return plan
    previous = request.previous if request else snapshot.stored.summary
    whole = summary_budget(snapshot, count)
    candidates = Candidates(
        plan.records.units,
        snapshot.pool,
        previous=previous,
        pool_tokens=pool_tokens(whole),
        in_force=snapshot.rules,
    )
    return replace(
        plan,
        candidates=candidates,
        pooling=lambda asked: candidates.pool(asked.budget_tokens if asked else whole, count),
        # A template says itself what a managed view is made from.
        request=request if not request or plan.managed else replace(request, candidates=candidates),
        wanted=tuple(
            (at, _folded(each, plan.events[at], snapshot.pool)) for at, each in plan.wanted
        ),
    )


def _folded(
    request: SummaryRequest, event: SummaryEvent, pool: Sequence[PooledLine]
) -> SummaryRequest:
    """A request for an event; one that folds older events is chosen from what they stood for."""
    own = [line for line in pool if event.first_seq <= (line.seq or 0) <= event.last_seq]
    if not request.previous or not own:
        return request
    return replace(request, candidates=Candidates(request.records.units, own))
