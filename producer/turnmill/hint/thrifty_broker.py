"""Celery's connections to a broker, without what costs them more than a message does."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, Final

from celery.app.amqp import AMQP
from kombu import Connection

SENT: Final = "sent_ms"
"""A header: when the message was sent, milliseconds since 1970."""


class ThriftyConnection(Connection):
    """A connection whose channels keep their client of Redis."""

    def create_transport(self) -> Any:
        """As kombu's; transports that are no Redis are as they were."""
        made: Any = super().create_transport()
        channel = getattr(made, "Channel", None)
        if hasattr(channel, "conn_or_acquire"):
            made.Channel = _thrifty(channel)
        return made


class ThriftyAmqp(AMQP):
    """What an app takes for its connections: ``Celery(amqp="…:ThriftyAmqp")``."""

    Connection: type[Connection] = ThriftyConnection

    def as_task_v2(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's, with when it is sent: no broker tells how old its messages are."""
        made = super().as_task_v2(*args, **kwargs)
        made.headers[SENT] = int(time.time() * 1000)
        return made


@cache
def _thrifty(channel: Any) -> Any:
    class ThriftyChannel(channel):  # type: ignore[misc]
        _kept: Any = None

        def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's
            """As kombu's, which makes one for each command: that costs ten times the command."""
            if asynchronous:
                return super()._create_client(asynchronous=True)
            if self._kept is None or self._kept.connection_pool is not self.pool:
                self._kept = super()._create_client()
            return self._kept

    return ThriftyChannel
