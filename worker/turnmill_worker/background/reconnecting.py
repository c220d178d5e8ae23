"""Celery's consumer, for a broker whose server dies or is replaced."""

from __future__ import annotations

from typing import Any

from celery.worker.consumer import Consumer

__all__ = ["ReconnectingConsumer"]


class ReconnectingConsumer(Consumer):
    """Goes on when the broker goes away, whatever it was just doing."""

    connection: Any

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """As Celery's, which can end the worker here.

        Where several of its sockets break, Celery closes a connection twice, and kombu would give
        fetched messages back over it, although it knows the broker's address no longer.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError:
            if self.connection is not None:
                raise
