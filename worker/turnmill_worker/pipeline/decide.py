"""Whether a session needs a compaction: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from turnmill.contract.context import Usage
from turnmill.contract.policy import Limits

__all__ = ["Compact", "Decision", "Skip", "decide"]


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Compact:
    """A compaction is wanted.

    Attributes:
        requirement: ``soft`` when it can wait, ``urgent`` when it cannot wait long, ``hard`` when
            reads already need projections.
        reasons: the comparisons that were true.
    """

    requirement: Literal["soft", "urgent", "hard"]
    reasons: tuple[str, ...]


Decision = Skip | Compact


def decide(usage: Usage, limits: Limits, exceeded: Mapping[str, str] | None = None) -> Decision:
    """Compact above the soft limit, or when a count is exceeded (``compaction.tally``).

    Between target and soft limit nothing happens (hysteresis).
    """
    if usage.total <= limits.soft:
        if exceeded:
            return Compact("soft", tuple(exceeded.values()))
        return Skip(f"{usage.total} tokens are within the soft limit of {limits.soft}")
    if usage.total > limits.hard:
        return Compact("hard", (f"{usage.total} tokens exceed the hard limit of {limits.hard}",))
    requirement: Literal["soft", "urgent"] = "urgent" if usage.total > limits.urgent else "soft"
    return Compact(requirement, (f"{usage.total} tokens exceed the soft limit of {limits.soft}",))
