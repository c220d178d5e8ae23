"""What a client knows of its namespace's quotas: workers measure, and each registration tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from turnmill.contract.codec import decode_json
from turnmill.contract.errors import QuotaExceeded

RETRY_EVERY_S = 1.0
"""A client that was refused asks again at most this often."""

REPORT_EVERY = 100
"""Pushes after which a client with a quota of them registers, however little time has passed."""


class Admission:
    """When one client registers its namespace, and what it must not do until the next time."""

    def __init__(self) -> None:
        self._told_s: float | None = None
        self._over: Mapping[str, tuple[int, int]] = {}
        self._wait_until_s = 0.0
        self._counts = False
        self._pushes = 0
        self._counting = threading.Lock()

    @property
    def owes(self) -> bool:
        """Whether pushes count here, and some have not been told of."""
        return self._counts and self._pushes > 0

    def is_due(self, every_s: float) -> bool:
        """Whether to register now, if that is done every so many seconds."""
        if self._told_s is None or (self._counts and self._pushes >= REPORT_EVERY):
            return True
        now = time.monotonic()
        if self._wait_until_s:
            return now >= self._wait_until_s
        return now - self._told_s >= (min(every_s, RETRY_EVERY_S) if self._over else every_s)

    def untold(self) -> int:
        """Pushes for a registration to tell of; another one that begins meanwhile tells of others.

        If it fails they are not told again, as they may have arrived.
        """
        with self._counting:
            pushes, self._pushes = self._pushes, 0
        return pushes

    def told(self, reply: Sequence[Any]) -> None:
        """Take in what a registration said."""
        now = time.monotonic()
        over, wait_ms = reply[1], reply[2]
        self._told_s, self._counts = now, bool(reply[3])
        self._over = decode_json(over) if over else {}
        self._wait_until_s = now + wait_ms / 1000 if wait_ms else 0.0

    def admit(self, pushes: int) -> None:
        """Count pushes that are about to be made.

        Raises:
            QuotaExceeded: the namespace has too many bytes, or had too many pushes lately.
        """
        left_s = self._wait_until_s - time.monotonic()
        if left_s > 0:
            raise QuotaExceeded.of("pushes_per_second", retry_after_s=left_s)
        if "bytes" in self._over:
            raise QuotaExceeded.of("bytes", *self._over["bytes"])
        with self._counting:
            self._pushes += pushes

    @property
    def takes_new_sessions(self) -> bool:
        """Whether a session that does not exist yet may be made."""
        return "sessions" not in self._over

    def refuse_session(self) -> None:
        """Raise ``QuotaExceeded`` for a session that would be new."""
        raise QuotaExceeded.of("sessions", *self._over["sessions"])
