"""The list in Redis of the workers of the queue ``summarize``."""

from __future__ import annotations

from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import SUMMARIZERS, SUMMARIZERS_MS
from turnmill_worker.store.scripts import translated

__all__ = ["RedisPresence"]


class RedisPresence:
    """The ``Presence`` port over a redis-py client."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def announce(self, entry: bytes) -> None:
        """List the worker for a minute, and drop those not announced for as long."""
        with translated():
            now_ms = redis_now_ms(self._redis)
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.zadd(SUMMARIZERS, {entry: now_ms})
                pipe.zremrangebyscore(SUMMARIZERS, "-inf", now_ms - SUMMARIZERS_MS)
                pipe.pexpire(SUMMARIZERS, SUMMARIZERS_MS)
                pipe.execute()

    def withdraw(self, entry: bytes) -> None:
        """List the worker no longer."""
        with translated():
            self._redis.zrem(SUMMARIZERS, entry)
