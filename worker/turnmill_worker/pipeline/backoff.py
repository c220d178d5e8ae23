"""Waiting for a model: how long, how often, and when there is no time for it."""

from __future__ import annotations

from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.spending import Tried

__all__ = ["may_wait", "pause_s"]

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0
"""Pauses double from the first to the longest."""

JITTER = 0.25
"""Share of a pause by which it may be longer: sessions that failed together come back apart."""


def may_wait(snapshot: Snapshot, tried: Tried) -> bool:
    """Whether the session has room left, and has not waited too often since its last commit."""
    has_room = snapshot.usage.total <= snapshot.limits.urgent
    return has_room and tried.deferrals < snapshot.policy.model_attempts


def pause_s(times: int, *, at_least_s: float | None = None, chance: float) -> float:
    """Seconds until the next try after ``times`` earlier ones; ``chance`` in 0..1 spreads them.

    An endpoint that wishes for longer than the longest pause is not believed, as by its gate.
    """
    pause = min(max(FIRST_PAUSE_S * 2.0**times, at_least_s or 0.0), LONGEST_PAUSE_S)
    return pause * (1 + JITTER * chance)
