"""The ladder: a policy's strategies in order, cheap to expensive, until the target is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from turnmill_worker.compaction.elide import elide, fit_newest
from turnmill_worker.compaction.rolling import rolling, rolling_budget
from turnmill_worker.compaction.snapshot import Count, Plan, Snapshot
from turnmill_worker.compaction.window import window, window_budget

__all__ = ["plan"]


class _Covering(NamedTuple):
    """A strategy that covers turns, and the tokens it leaves for those it keeps."""

    plan: Callable[[Snapshot, Count], Plan | None]
    budget: Callable[[Snapshot, Count], int]


_COVERING: Mapping[str, _Covering] = {
    "rolling": _Covering(rolling, rolling_budget),
    "window": _Covering(window, window_budget),
}


def plan(snapshot: Snapshot, count: Count, *, below: str = "") -> Plan | None:
    """The first plan that brings the session to its target, or None when nothing is worth doing.

    Elisions that do not suffice alone are kept for the rungs after them. ``below`` starts the
    ladder after the rung of that name: the one that failed.
    """
    if snapshot.usage.total <= snapshot.limits.target:
        return None
    draft = snapshot
    for name in _rungs(snapshot, below):
        if name == "elide":
            draft = elide(draft, count)
            found = _elided(snapshot, draft)
        else:
            found = _cover(snapshot, draft, _COVERING[name], count)
        if found is not None and _is_worth_it(snapshot, found):
            return found
    return None


def _rungs(snapshot: Snapshot, below: str) -> tuple[str, ...]:
    rungs = snapshot.policy.strategies
    return rungs[rungs.index(below) + 1 :] if below in rungs else rungs


def _cover(snapshot: Snapshot, draft: Snapshot, strategy: _Covering, count: Count) -> Plan | None:
    """The strategy's plan; when its newest turns alone are too large, with those shortened."""
    found = strategy.plan(draft, count)
    if found is not None:
        return found
    fitted = fit_newest(draft, strategy.budget(draft, count), count)
    if fitted is None:
        return None
    return _elided(snapshot, fitted) or strategy.plan(fitted, count)


def _elided(snapshot: Snapshot, draft: Snapshot) -> Plan | None:
    if draft is snapshot or draft.usage.total > draft.limits.target:
        return None
    return Plan(
        strategy="elide",
        snapshot=draft,
        summary=draft.stored.summary,
        receipts=draft.stored.receipts,
    )


def _is_worth_it(snapshot: Snapshot, found: Plan) -> bool:
    """Whether it frees the policy's minimum progress; above the hard limit, anything helps."""
    if snapshot.usage.total > snapshot.limits.hard:
        return True
    elided = snapshot.usage.total - found.snapshot.usage.total
    covered = sum(group.tokens for group in found.covered if not group.pinned)
    cost = found.request.budget_tokens - snapshot.stored.tokens if found.request else 0
    freed = elided + covered - max(cost, 0)
    return freed >= snapshot.limits.room * snapshot.policy.min_progress_ratio
