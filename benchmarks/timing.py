"""Interleaved timing, so that two things measured drift together."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Sample", "interleaved"]


@dataclass(frozen=True)
class Sample:
    """Seconds per call, sorted."""

    seconds: Sequence[float]

    @property
    def p50_us(self) -> float:
        return statistics.median(self.seconds) * 1e6

    def percentile_ms(self, share: float) -> float:
        return self.seconds[min(int(len(self.seconds) * share), len(self.seconds) - 1)] * 1e3


def interleaved(*calls: Callable[[], object], rounds: int) -> list[Sample]:
    """Time each call once per round, in turn."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for at, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[at].append(time.perf_counter() - start)
    return [Sample(sorted(found)) for found in times]
