"""What becomes of a bad message: counted, told in the log, and listed in Redis; never its words."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property

import structlog

from turnmill.contract.errors import TurnmillError
from turnmill_worker.background.broker_messages import BadMessage
from turnmill_worker.ports.sweep import QuarantineList

__all__ = ["Quarantine"]

log = structlog.get_logger()

LOG_EVERY_S = 1.0
"""A line of the log for each of the first, and then one in a second at most: there may be many."""

FIRST_LOGGED = 20

TRY_AGAIN_S = 30.0
"""While Redis fails, the worker does not wait for it more often."""

MOST_WAITING = 100


class Quarantine:
    """Of one worker process."""

    def __init__(self, connect: Callable[[], QuarantineList]) -> None:
        self._connect = connect
        self._waiting: deque[BadMessage] = deque(maxlen=MOST_WAITING)
        self._count, self._listed = 0, 0
        self._next_line_s, self._next_try_s = -math.inf, -math.inf

    def put_aside(self, message: BadMessage) -> None:
        """Count a message, and tell of it as far as there is room."""
        self._count += 1
        self._waiting.append(message)
        now_s = time.monotonic()
        if self._count <= FIRST_LOGGED or now_s >= self._next_line_s:
            self._next_line_s = now_s + LOG_EVERY_S
            log.warning("quarantined", **asdict(message), so_far=self._count)
        if now_s >= self._next_try_s:
            self._list(now_s)

    @cached_property
    def _store(self) -> QuarantineList:
        return self._connect()

    def _list(self, now_s: float) -> None:
        try:
            entries = [asdict(each) for each in self._waiting]
            self._store.add(entries, count=self._count - self._listed)
        except TurnmillError:
            self._next_try_s = now_s + TRY_AGAIN_S
            return
        self._waiting.clear()
        self._listed = self._count
