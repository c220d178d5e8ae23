"""Workers of the queue ``summarize`` announce themselves, and what policies may name there.

A worker without a key writes extractive summaries, and one without a policy's template none at
all: nobody would know before reading a context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from turnmill.contract.codec import encode_json
from turnmill.contract.errors import TurnmillError
from turnmill_worker.store.reports import RedisPresence

log = structlog.get_logger()

EVERY_S = 15.0


class Announcement:
    """One worker's announcement, repeated by a thread as long as the worker runs."""

    def __init__(
        self,
        presence: RedisPresence,
        entry: Callable[[], Mapping[str, object]],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        """``entry``: what the worker says of itself now; see ``turnmill.contract.keys``."""
        self._presence = presence
        self._every_s = every_s
        self._tell, self._entry = entry, b""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnmill-announce", daemon=True)

    def start(self) -> None:
        """Begin to repeat the announcement."""
        self._thread.start()

    def stop(self) -> None:
        """Withdraw the announcement: the worker leaves."""
        self._ended.set()
        self._thread.join(timeout=5)
        with suppress(TurnmillError):
            self._presence.withdraw(self._entry)

    def _renew(self, entry: bytes) -> None:
        """Announce the entry, and nothing that it says no longer."""
        before, self._entry = self._entry, entry
        if before not in (b"", entry):
            self._presence.withdraw(before)
        self._presence.announce(entry)

    def _run(self) -> None:
        was_heard = True
        while True:
            try:
                self._renew(encode_json(self._tell()))
                was_heard = True
            except TurnmillError as error:
                if was_heard:  # or it would log every few seconds of an outage
                    log.warning("not announced", error=type(error).__name__)
                was_heard = False
            if self._ended.wait(self._every_s):
                return
