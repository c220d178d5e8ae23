"""What waiting takes without blocking the event loop. ``_sync/waiting.py`` is its twin by hand."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import redis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry

from turnmill.transport import (
    ATTEMPTS,
    LOOK_AFTER_S,
    MAX_CONNECTIONS,
    backoff,
    connection_options,
)

__all__ = ["Redis", "connect", "in_thread"]

in_thread = asyncio.to_thread


class Connections(ConnectionPool):
    """``turnmill.transport.Connections`` for an event loop: only callers without one wait."""

    def __init__(self, *args: Any, wait_s: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._wait_s = wait_s
        self._places = asyncio.Semaphore(self.max_connections)
        self._used_s: dict[Any, float] = {}

    async def get_connection(self, *_args: Any, **_options: Any) -> Any:
        """A connection nobody else uses; waits ``wait_s`` for one.

        Raises:
            redis.ConnectionError: none became free, or no connection can be made.
        """
        if self._places.locked():
            try:
                await asyncio.wait_for(self._places.acquire(), self._wait_s)
            except TimeoutError:
                raise redis.ConnectionError("No connection available.") from None
        else:
            await self._places.acquire()
        connection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            used_s = self._used_s.get(connection, 0.0)
            if not connection.is_connected or time.monotonic() - used_s > LOOK_AFTER_S:
                await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """Let others use it; closed if a reply may be left on its way."""
        kind = sys.exc_info()[0]
        self._in_use_connections.remove(connection)
        try:
            if kind is not None and not issubclass(kind, redis.ResponseError):
                await connection.disconnect(nowait=True)
        finally:
            self._used_s[connection] = time.monotonic()
            self._available_connections.append(connection)
            self._places.release()


def connect(url: str, timeout_s: float) -> Redis:
    """A client of its own pool, whose calls end within ``timeout_s``."""
    pool = Connections.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        wait_s=timeout_s,
        retry=Retry(backoff(timeout_s), ATTEMPTS - 1),
        **connection_options(timeout_s),
    )
    client = Redis.from_pool(pool)
    del client.response_callbacks["XRANGE"]  # a dict per entry, unused
    return client
