"""Celery's consumer, for a broker that may be a Redis at ``maxmemory``."""

from __future__ import annotations

import time
from typing import Any, Final

from turnmill_worker.background.reconnecting import ReconnectingConsumer

__all__ = ["PatientConsumer"]

PAUSE_S: Final = 1.0


class PatientConsumer(ReconnectingConsumer):
    """Tries again each second while the broker refuses commands, with one connection."""

    channel_errors: tuple[type[BaseException], ...]

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
        """As Celery's, which would try again at once."""
        super().on_connection_error_after_connected(exc)
        self._rest(exc)

    def _rest(self, error: Exception) -> None:
        if isinstance(error, self.channel_errors):
            time.sleep(PAUSE_S)
