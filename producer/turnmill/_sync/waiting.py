"""What waiting takes in threads; ``_async/waiting.py`` is its twin by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import redis
from redis import Redis
from redis.retry import Retry

from turnmill.commands import Command
from turnmill.transport import (
    ATTEMPTS,
    MAX_CONNECTIONS,
    Connections,
    attempt_s,
    backoff,
    connection_options,
    packed,
)

__all__ = ["Redis", "Trips", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What the function returns; the caller waits in a thread already."""
    return function(*args, **options)


class Trips:
    """Round trips to one Redis by URL, each of which ends within ``timeout_s``.

    redis-py's client does more for each command than the trip costs.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._retry = Retry(backoff(timeout_s), ATTEMPTS - 1)
        self._pool: Any = Connections.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            wait_s=self.attempt_s,
            **connection_options(timeout_s),
        )

    def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands sent together; an error of Redis is in its reply's place.

        Raises:
            redis.RedisError: there is no reply; it was tried ``ATTEMPTS`` times.
        """
        words = [packed(commands)]
        return self._retry.call_with_retry(lambda: self._attempt(words, len(commands)), _go_on)

    def _attempt(self, words: list[bytes], replies: int) -> list[Any]:
        connection = self._pool.get_connection()
        broken = True
        try:
            connection.send_packed_command(words, check_health=False)
            found = [_reply(connection) for _ in range(replies)]
            broken = False
            return found
        finally:
            self._pool.release(connection, broken=broken)

    def close(self) -> None:
        """Close the connections."""
        self._pool.disconnect()


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def _go_on(_: Exception) -> None:
    """Nothing to do before the next try: the connection is closed already."""
