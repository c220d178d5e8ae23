"""A look at the Celery broker: who answers, what they consume, how much waits."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from typing import Any

from turnmill.contract import jobs
from turnmill.hint.thrifty_broker import SENT
from turnmill.hint.waker import hint_app

_REFUSALS = ("AuthenticationError", "AuthenticationWrongNumberOfArgsError", "AccessRefused")
"""By name: what redis-py, kombu and py-amqp raise for a wrong password."""


def is_refusal(error: BaseException | None) -> bool:
    """Whether the broker is there and does not let this user in, or lacks the database."""
    while error is not None:
        told = f"{type(error).__name__} {error}"
        if any(name in told for name in (*_REFUSALS, "WRONGPASS", "NOAUTH", "DB index")):
            return True
        error = error.__cause__ or error.__context__
    return False


class BrokerView:
    """A connection to look at the broker with; every call ends within ``timeout_s`` or so.

    What kombu and the transports raise on a dead broker is no one type: callers catch Exception.
    """

    def __init__(self, broker_url: str, *, timeout_s: float = 2.0) -> None:
        self._app = hint_app(broker_url, timeout_s=timeout_s)
        self._timeout_s = timeout_s
        self._connection: Any = None
        self._channel: Any = None

    def waiting(self) -> dict[str, int]:
        """How many messages wait in each queue; 0 for one that does not exist yet."""
        return {queue: self._length(queue) for queue in jobs.QUEUES}

    def oldest_s(self) -> dict[str, float | None]:
        """For how long the first message of each queue has waited; 0 where none does.

        None where nobody knows: the broker is no Redis, or an older version sent it.
        """
        self._connected()
        client = getattr(self._channel, "client", None)
        if client is None:
            return dict.fromkeys(jobs.QUEUES)
        return {queue: _age_s(client.lrange(queue, -1, -1)) for queue in jobs.QUEUES}

    def consumers(self) -> list[tuple[str, list[str]]]:
        """Each worker that answers: its node name, and the queues it consumes.

        Not by node: two workers may share a name.
        """
        replies = self._app.control.broadcast(
            "active_queues", reply=True, timeout=self._timeout_s, connection=self._connected()
        )
        return [
            (node, [queue["name"] for queue in queues])
            for reply in replies or ()
            for node, queues in reply.items()
            if isinstance(queues, list)
        ]

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Those of the nodes that answer; returns as soon as all do."""
        replies = self._app.control.ping(
            destination=list(nodes), timeout=self._timeout_s, connection=self._connected()
        )
        return {node for reply in replies or () for node in reply}

    def close(self) -> None:
        """Let go of everything."""
        self.disconnect()
        self._app.close()

    def disconnect(self) -> None:
        """Let go of the connection; the next call makes a new one."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.release()

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._app.connection_for_read()
            self._length(jobs.QUEUES[0])  # the first command is what truly connects
        return self._connection

    def _length(self, queue: str) -> int:
        connection = self._connected()
        self._channel = self._channel or connection.channel()
        try:
            return int(self._channel.queue_declare(queue=queue, passive=True).message_count)
        except connection.channel_errors:
            if not getattr(self._channel, "is_open", True):  # AMQP closes it, Redis does not
                self._channel = None
            return 0


def _age_s(first: Sequence[bytes]) -> float | None:
    now_ms = time.time() * 1000
    sent_ms = json.loads(first[0])["headers"].get(SENT) if first else now_ms
    return None if sent_ms is None else max(now_ms - sent_ms, 0.0) / 1000
