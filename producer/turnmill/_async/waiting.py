"""What waiting takes without blocking the event loop; ``_sync/waiting.py`` is its twin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turnmill.commands import Command
from turnmill.transport import ATTEMPTS, MAX_CONNECTIONS, attempt_s, backoff, connection_options

__all__ = ["Connections", "Redis", "in_thread"]

in_thread = asyncio.to_thread

_pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its own stub is narrower


class Connections:
    """Connections to one Redis by URL; a trip on one of them ends within ``timeout_s``.

    redis-py's own pool and client cost more than the trip: locks, a look at the socket, a task for
    what is sent and a timer for each reply. Callers beyond ``MAX_CONNECTIONS`` wait for a free one.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._timeout_s = timeout_s
        self._retry = Retry(backoff(timeout_s), ATTEMPTS - 1)
        self._pool: Any = ConnectionPool.from_url(
            url, **connection_options(timeout_s) | {"socket_timeout": None}
        )
        self._made: list[Any] = []
        self._free: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        for _ in range(MAX_CONNECTIONS):
            self._free.put_nowait(None)

    async def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands sent together; an error of Redis is in its reply's place.

        Raises:
            RedisError: there is no reply; it was tried ``ATTEMPTS`` times.
        """
        packed = b"".join(map(_pack, commands))
        return await self._retry.call_with_retry(
            lambda: self._attempt(packed, len(commands)), _go_on
        )

    async def _attempt(self, packed: bytes, replies: int) -> list[Any]:
        connection = await self._connection()
        try:
            async with asyncio.timeout(self.attempt_s) as timer:
                await connection.send_packed_command(packed, check_health=False)
                found = [await _reply(connection)]
                for _ in range(replies - 1):
                    timer.reschedule(asyncio.get_running_loop().time() + self.attempt_s)
                    found.append(await _reply(connection))
                return found
        except BaseException as error:
            # The reply may still come: whoever is next must not take it for its own.
            await connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                raise RedisTimeoutError("no reply in time") from None
            raise
        finally:
            self._free.put_nowait(connection)

    async def _connection(self) -> Any:
        if self._free.empty():
            try:
                free = await asyncio.wait_for(self._free.get(), self._timeout_s)
            except TimeoutError:
                raise RedisTimeoutError("no connection is free") from None
        else:
            free = self._free.get_nowait()
        if free is None:
            free = self._pool.make_connection()
            self._made.append(free)
        return free

    async def close(self) -> None:
        """Close them all."""
        for connection in self._made:
            await connection.disconnect(nowait=True)


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


async def _go_on(_: Exception) -> None:
    """Nothing to do before the next try: the connection is closed already."""
