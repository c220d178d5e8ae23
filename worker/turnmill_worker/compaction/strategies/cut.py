"""Where the log may be cut so that a budget is met."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill_worker.compaction.snapshot import Group

__all__ = ["choose_cut"]


def choose_cut(
    groups: Sequence[Group],
    budget: int,
    *,
    pending: bool = False,
    most_interactions: int | None = None,
) -> int:
    """How many of the oldest groups to cover so that what stays has at most ``budget`` tokens.

    And at most ``most_interactions``, if given: then what stays begins with a user's request, as
    long as one is left to begin with, and no answer stays without its question.

    The fewest that do; 0 when no cut does. What stays are the later groups and the pinned ones.
    Open groups are never covered, nor is the newest group unless ``pending`` turns follow it: an
    agent must find its last turn in its context. Linear in the number of groups.
    """
    kept = sum(group.tokens for group in groups)
    freed = 0
    fewest = 0
    excess = _excess(groups, most_interactions)
    for at, group in enumerate(groups if pending else groups[:-1], 1):
        if not group.closed:
            break
        if not group.pinned:
            kept -= group.tokens
            freed += group.tokens
        excess -= group.interactions
        if kept <= budget and freed > 0 and excess <= 0:
            fewest = fewest or at
            if most_interactions is None or _begins(groups[at:]):
                return at
    return fewest


def _excess(groups: Sequence[Group], most: int | None) -> int:
    """How many interactions are too many."""
    return 0 if most is None else sum(group.interactions for group in groups) - most


def _begins(groups: Sequence[Group]) -> bool:
    """Whether these begin with a user's request, or with what nobody has counted yet."""
    return not groups or groups[0].interactions > 0
