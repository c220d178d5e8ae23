"""A policy's strategies in order, cheap to expensive, until one reaches the goal."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from turnmill.contract.estimate import Counter
from turnmill.contract.render import request_entry
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies import (
    elide,
    images,
    iterations,
    managed,
    rolling,
    window,
)
from turnmill_worker.compaction.strategies.elide import fit_newest
from turnmill_worker.compaction.strategies.registry import Covers, Elides, known_of, strategy_of
from turnmill_worker.reading.requests import images_tokens

_OWN: Final = (elide, images, iterations, managed, rolling, window)
"""Each has registered itself; a new one of turnmill's is its module and its name here."""

_ENOUGH_SHARE: Final = 0.4
"""Share of the way from target to soft limit at which shortening alone may end.

Shortening leaves half of the prompt as it was; a new summary leaves nothing. So shortening may
happen somewhat more often.
"""


def plan(snapshot: Snapshot, counter: Counter, *, below: str = "") -> Plan | None:
    """The first plan that brings the session to its goal, or None when nothing is worth doing.

    The goal: tokens over the soft limit come down to the target (shortening alone may end above
    it), and no count is exceeded. Elisions that do not suffice alone are kept for the rungs after
    them. ``below`` starts the ladder after the rung of that name: the one that failed.
    """
    asked = snapshot.exceeded
    roomy = snapshot.usage.total <= snapshot.limits.soft
    if not asked and snapshot.usage.total <= _enough(snapshot):
        return None
    if asked and roomy:
        snapshot = replace(snapshot, goal=snapshot.limits.soft)
    # A shorter request is better than reads that are cut, but it never gets longer again.
    over = snapshot.usage.total > snapshot.limits.hard
    for share in _REQUEST_SHARES if over else _REQUEST_SHARES[:1]:
        found = _with_room_for_what_was_said(snapshot, counter, below, share)
        if found is not None:
            return found
    return None


_REQUEST_SHARES: Final = (1.0, 0.5, 0.25, 0.1)
"""Shares of the room that open requests may take, tried in turn."""


def _with_room_for_what_was_said(
    snapshot: Snapshot, counter: Counter, below: str, share: float
) -> Plan | None:
    """The ladder's plan with room for all rules and requests it covers: which, a plan tells."""
    heard, through = heard_in(snapshot, counter), snapshot.stored.watermark
    while True:
        given = heard.given_room(snapshot, through=through, share=share)
        found = _climb(given, counter, below)
        if found is None or found.cut <= through:
            return found
        through = found.cut


def _climb(snapshot: Snapshot, counter: Counter, below: str) -> Plan | None:
    asked = snapshot.exceeded
    roomy = snapshot.usage.total <= snapshot.limits.soft
    draft, by = snapshot, ""
    for name in _rungs(snapshot, below):
        strategy = strategy_of(name)
        if isinstance(strategy, Elides):
            before, draft = draft, strategy.apply(draft, counter)
            if draft is not before and (strategy.names_plan or not by):
                by = name
            found = None if draft.exceeded else _elided(snapshot, draft, by)
        else:
            found = _cover(snapshot, draft, strategy, counter)
        if found is not None and (asked or _is_worth_it(snapshot, found, counter)):
            return replace(found, forced=bool(asked) and roomy)
    # Fewer images help, even if another count stays too high.
    left = _elided(snapshot, draft, by) if asked else None
    return None if left is None else replace(left, forced=True)


def _rungs(snapshot: Snapshot, below: str) -> tuple[str, ...]:
    rungs = known_of(snapshot.policy.strategies)
    return rungs[rungs.index(below) + 1 :] if below in rungs else rungs


def _cover(snapshot: Snapshot, draft: Snapshot, strategy: Covers, counter: Counter) -> Plan | None:
    """The strategy's plan, if it helps; newest turns that alone are too large are shortened."""
    if draft.usage.total <= draft.aim and strategy.lowers not in draft.exceeded:
        return None
    found = strategy.plan(draft, counter)
    if found is not None or strategy.budget is None:
        return found
    fitted = fit_newest(draft, strategy.budget(draft, counter), counter)
    if fitted is None:
        return None
    return _elided(snapshot, fitted, "elide") or strategy.plan(fitted, counter)


def _elided(snapshot: Snapshot, draft: Snapshot, by: str) -> Plan | None:
    enough = _enough(draft)
    if draft is snapshot or draft.usage.total > enough:
        return None
    stored = draft.stored
    return Plan(
        strategy=by,
        snapshot=replace(draft, goal=enough),
        summary=stored.summary,
        receipts=stored.receipts,
        events=stored.events,
        managed=stored.managed,
    )


def _enough(snapshot: Snapshot) -> int:
    """Most tokens that shortening alone may leave."""
    limits = snapshot.limits
    return max(snapshot.aim, limits.target + int(_ENOUGH_SHARE * (limits.soft - limits.target)))


def _is_worth_it(snapshot: Snapshot, found: Plan, counter: Counter) -> bool:
    """Whether it frees the policy's minimum progress; above the hard limit, anything helps."""
    if snapshot.usage.total > snapshot.limits.hard:
        return True
    elided = snapshot.usage.total - found.snapshot.usage.total
    covered = sum(group.tokens for group in found.covered if not group.pinned)
    texts = sum(request.budget_tokens for request in found.requests)
    cost = texts - (snapshot.stored.tokens if found.request else found.replaced)
    fresh = [each for each in found.asked if each not in snapshot.before.stored.requests]
    cost = max(cost, 0) + sum(counter.count(request_entry(each)) for each in fresh)
    cost += images_tokens(fresh, counter)
    # A text may fill what the goal leaves: no context is above that.
    freed = max(elided + covered - cost, snapshot.usage.total - found.snapshot.aim)
    return freed >= snapshot.limits.room * snapshot.policy.min_progress_ratio
