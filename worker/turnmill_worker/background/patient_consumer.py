"""Celery's consumer, for a broker that dies, is replaced, or is a Redis at ``maxmemory``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from celery.worker.consumer import Consumer

__all__ = ["PatientConsumer"]

PAUSE_S: Final = 1.0

EVENTS_EVERY_S: Final = 0.3
"""How long events of tasks gather: each message of them costs what a job's own message does."""


class PatientConsumer(Consumer):
    """Goes on when the broker goes away, and tries each second while it refuses commands."""

    channel_errors: tuple[type[BaseException], ...]
    connection_errors: tuple[type[BaseException], ...]
    connection: Any
    hub: Any
    _flush_events: Callable[[], None]
    _events_due = 0.0

    def connection_for_read(self, heartbeat: Any = None) -> Any:
        """As Celery's, remembered until it is in use."""
        self._newest = super().connection_for_read(heartbeat)
        return self._newest

    def connect(self) -> Any:
        """As Celery's, which would leave a connection open that could not be used."""
        try:
            return super().connect()
        except self.channel_errors:
            self._newest.release()
            raise

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """As Celery's, which would try again at once."""
        super().on_connection_error_before_connected(exc)
        self._rest(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """As Celery's, which would try again at once, and can end the worker here.

        Where several of its sockets break, Celery closes a connection twice, and kombu would give
        fetched messages back over it, although it knows the broker's address no longer.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError:
            if self.connection is not None:
                raise
        self._rest(exc)

    def on_send_event_buffered(self) -> Any:
        """Publish events with those that follow soon; Celery does so in each round of its loop."""
        now = time.monotonic()
        # Not a flag: a loop that begins anew has forgotten what it was to do later.
        if self.hub is not None and now >= self._events_due:
            self._events_due = now + EVENTS_EVERY_S
            self.hub.call_later(EVENTS_EVERY_S, super().on_send_event_buffered)

    def stop(self) -> None:
        """As Celery's; what happened last is published first."""
        with suppress(*self.channel_errors, *self.connection_errors):
            self._flush_events()
        super().stop()

    def _rest(self, error: Exception) -> None:
        if isinstance(error, self.channel_errors):
            time.sleep(PAUSE_S)
