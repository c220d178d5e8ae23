"""Ctrl-C, SIGTERM and SIGHUP as a flag, so that `turnmill up` ends in its own order."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["StopSignals"]

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLICE_S = 0.1


class StopSignals:
    """Counts signals to stop while inside the block: one means stop, two mean at once."""

    def __init__(self) -> None:
        self._count = 0
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def stopping(self) -> bool:
        """Whether to stop."""
        return self._count > 0

    @property
    def hurried(self) -> bool:
        """Whether to stop without waiting for anyone."""
        return self._count > 1

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until told to stop."""
        deadline = time.monotonic() + seconds
        # In slices and not on an Event: a handler may not take the lock its own thread holds.
        while not self.stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, SLICE_S))

    def _seen(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1

    def __enter__(self) -> Self:
        self._previous = {one: signal.signal(one, self._seen) for one in _STOPPING}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, previous in self._previous.items():
            signal.signal(one, previous)
