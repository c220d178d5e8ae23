"""The machine, so that numbers of two days can be told apart."""

from __future__ import annotations

import datetime as dt
import os
import platform
import time

__all__ = ["machine", "speed"]

_ROUNDS = 200_000


def speed() -> float:
    """Rounds of a plain loop per µs of CPU time, the best of five."""
    best = float("inf")
    for _ in range(5):
        begun, total = time.process_time(), 0
        for at in range(_ROUNDS):
            total += at % 7
        best = min(best, time.process_time() - begun)
    return _ROUNDS / best / 1e6


def machine() -> str:
    """Date, cores, load and speed in one line."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return (
        f"{today}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.1f}, {speed():.1f} loops/µs"
    )
