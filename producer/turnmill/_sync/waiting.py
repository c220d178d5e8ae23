"""What waiting takes in threads; ``_async/waiting.py`` is its twin."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import hiredis
from redis import ConnectionPool, Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from turnmill.commands import Command
from turnmill.transport import ATTEMPTS, MAX_CONNECTIONS, attempt_s, backoff, connection_options

__all__ = ["Connections", "Redis", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")

_pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its own stub is narrower


def in_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What the function returns; the caller waits in a thread already."""
    return function(*args, **options)


class Connections:
    """Connections to one Redis by URL; a trip on one of them ends within ``timeout_s``.

    redis-py's own pool and client cost more than the trip. Callers beyond ``MAX_CONNECTIONS`` wait
    for a free one.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._timeout_s = timeout_s
        self._retry = Retry(backoff(timeout_s), ATTEMPTS - 1)
        self._pool: Any = ConnectionPool.from_url(url, **connection_options(timeout_s))
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._made: list[Any] = []
        self._free: queue.LifoQueue[Any] = queue.LifoQueue()
        for _ in range(MAX_CONNECTIONS):
            self._free.put_nowait(None)

    def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands sent together; an error of Redis is in its reply's place.

        Raises:
            RedisError: there is no reply; it was tried ``ATTEMPTS`` times.
        """
        if self._pid != os.getpid():
            self._reset()  # forked: the parent's sockets are not ours
        packed = b"".join(map(_pack, commands))
        return self._retry.call_with_retry(lambda: self._attempt(packed, len(commands)), _go_on)

    def _attempt(self, packed: bytes, replies: int) -> list[Any]:
        connection = self._connection()
        try:
            connection.send_packed_command([packed], check_health=False)
            return [_reply(connection) for _ in range(replies)]
        except BaseException:
            # The reply may still come: whoever is next must not take it for its own.
            connection.disconnect()
            raise
        finally:
            self._free.put_nowait(connection)

    def _connection(self) -> Any:
        try:
            free = self._free.get(timeout=self._timeout_s)
        except queue.Empty:
            raise RedisTimeoutError("no connection is free") from None
        if free is None:
            free = self._pool.make_connection()
            self._made.append(free)
        return free

    def close(self) -> None:
        """Close them all."""
        for connection in self._made:
            connection.disconnect()


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _go_on(_: Exception) -> None:
    """Nothing to do before the next try: the connection is closed already."""
