"""Ctrl-C, SIGTERM and SIGHUP as a flag, so that `turnmill up` ends in its own order."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["StopSignals", "stop_signals"]

SLICE_S = 0.1


class StopSignals:
    """How many signals to stop have come: one means stop, two mean at once."""

    count = 0

    @property
    def stopping(self) -> bool:
        """Whether to stop."""
        return self.count > 0

    @property
    def hurried(self) -> bool:
        """Whether to stop without waiting for anyone."""
        return self.count > 1

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until told to stop."""
        deadline = time.monotonic() + seconds
        # In slices and not on an Event: a handler may not take the lock its own thread holds.
        while not self.stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, SLICE_S))


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """The signals that come while the block runs; they do not end the process."""
    seen = StopSignals()

    def note(_number: int, _frame: object) -> None:
        seen.count += 1

    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {each: signal.signal(each, note) for each in stopping}
    try:
        yield seen
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
