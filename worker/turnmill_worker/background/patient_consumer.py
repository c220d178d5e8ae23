"""Celery's consumer, for a broker that dies, is replaced, or is a Redis at ``maxmemory``."""

from __future__ import annotations

import time
from typing import Any, Final

from celery.worker.consumer import Consumer

__all__ = ["PatientConsumer"]

PAUSE_S: Final = 1.0


class PatientConsumer(Consumer):
    """Goes on when the broker goes away, and tries each second while it refuses commands."""

    channel_errors: tuple[type[BaseException], ...]
    connection: Any

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

    def _rest(self, error: Exception) -> None:
        if isinstance(error, self.channel_errors):
            time.sleep(PAUSE_S)
