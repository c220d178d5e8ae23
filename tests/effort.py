"""What work costs, in processor seconds: a busy machine makes all else a matter of luck."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_FORGIVEN_S = 0.05
"""What a busy machine's caches may add."""

_ROUNDS = 5


def least_cpu_s(work: Callable[[], object], *, times: int = 3) -> float:
    """Processor seconds of the quickest of some runs."""
    took = []
    for _ in range(times):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def assert_linear(work: Callable[[int], object], *, size: int, factor: int = 4) -> None:
    """Fail where ``factor`` times the size takes nearer to factor² than to factor times as long.

    Both are measured again while that seems so: other processes only ever add to the least time.
    """
    work(size // 2)  # what is loaded or compiled once
    small = large = math.inf
    for _ in range(_ROUNDS):
        small = min(small, least_cpu_s(lambda: work(size), times=1))
        large = min(large, least_cpu_s(lambda: work(size * factor), times=1))
        if large <= factor**1.6 * small + _FORGIVEN_S:
            return
    raise AssertionError(f"{size}: {small:.4f} s, x{factor}: {large}")
