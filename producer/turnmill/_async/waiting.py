"""What waiting takes without blocking the event loop; ``_sync/waiting.py`` is its twin by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import redis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry

from turnmill.commands import Command
from turnmill.store_url import StoreUrl
from turnmill.transport import (
    ATTEMPTS,
    LOOK_AFTER_S,
    MAX_CONNECTIONS,
    attempt_s,
    backoff,
    connection_options,
    packed,
)

__all__ = ["Connections", "Redis", "Trips", "exchange", "in_thread", "pool"]

in_thread = asyncio.to_thread

TIMED_TOGETHER = 8
"""Replies that may together take as long as a call may wait: a timer costs half a reply."""


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
                # Python 3.11's `wait_for` may lose a cancellation that comes with the place.
                async with asyncio.timeout(self._wait_s):
                    await self._places.acquire()
            except TimeoutError:
                raise redis.ConnectionError("No connection available.") from None
        else:
            await self._places.acquire()
        connection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            used_s = self._used_s.get(connection, 0.0)
            if not connection.is_connected or time.monotonic() - used_s > LOOK_AFTER_S:
                async with asyncio.timeout(self._wait_s):
                    await self.ensure_connection(connection)
        except BaseException as error:
            await self.release(connection, broken=True)
            if isinstance(error, TimeoutError):
                raise redis.TimeoutError("no connection in time") from None
            raise
        return connection

    async def release(self, connection: Any, *, broken: bool = False) -> None:
        """Let others use it; closed if it is ``broken``: a reply may be left on its way."""
        self._in_use_connections.remove(connection)
        try:
            if broken:
                await connection.disconnect(nowait=True)
        finally:
            self._used_s[connection] = time.monotonic()
            self._available_connections.append(connection)
            self._places.release()


def pool(
    url: str, timeout_s: float, connection_class: type[Any] | None = None, **options: Any
) -> Connections:
    """Connections to a server; a trip has one timer, its sockets have none."""
    made: Connections = Connections.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        wait_s=attempt_s(timeout_s),
        **(connection_options(timeout_s) | {"socket_timeout": None} | options),
    )
    if connection_class is not None:
        made.connection_class = connection_class  # a URL with TLS would choose another
    return made


async def exchange(
    connections: Connections, words: bytes, replies: int, wait_s: float
) -> list[Any]:
    """The replies to what is sent over one connection; an error of Redis is in its reply's place.

    Raises:
        redis.RedisError: there is no reply.
    """
    connection = await connections.get_connection()
    broken = True
    try:
        async with asyncio.timeout(wait_s) as timer:
            await connection.send_packed_command(words, check_health=False)
            found = [await _reply(connection)]
            for at in range(1, replies):
                if at % TIMED_TOGETHER == 0:
                    timer.reschedule(asyncio.get_running_loop().time() + wait_s)
                found.append(await _reply(connection))
        broken = False
    except TimeoutError:
        raise redis.TimeoutError("no reply in time") from None
    finally:
        await connections.release(connection, broken=broken)
    return found


class Trips:
    """Round trips to one Redis, or to Sentinels' master, each of which ends within ``timeout_s``.

    redis-py's client costs more than the trip: a task for what is sent, a timer for each reply, and
    commands put together in Python. Here a trip has one timer.
    """

    def __init__(self, store: StoreUrl, timeout_s: float, **connections: Any) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._retry = Retry(backoff(timeout_s), ATTEMPTS - 1)
        self._pool = pool(store.server(), timeout_s, **connections)

    async def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands sent together; an error of Redis is in its reply's place.

        Raises:
            redis.RedisError: there is no reply; it was tried ``ATTEMPTS`` times.
        """
        words = packed(commands)
        return await self._retry.call_with_retry(
            lambda: exchange(self._pool, words, len(commands), self.attempt_s), _go_on
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except redis.ResponseError as error:
        return error


async def _go_on(_: Exception) -> None:
    """Nothing to do before the next try: the connection is closed already."""
