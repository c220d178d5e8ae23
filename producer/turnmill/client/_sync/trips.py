"""Round trips of the synchronous client, in threads; ``_async/trips.py`` is the twin by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from redis.retry import Retry

from turnmill.connection.store_client import pool_of
from turnmill.connection.transport import (
    ATTEMPTS,
    MAX_CONNECTIONS,
    attempt_s,
    backoff,
    exchange,
    packed,
)
from turnmill.connection.urls import StoreUrl, store_url
from turnmill.contract.scripts import Command

if TYPE_CHECKING:
    from turnmill.connection.cluster import ClusterTrips


P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What the function returns; the caller waits in a thread already."""
    return function(*args, **options)


class Trips:
    """Round trips to one Redis, or to Sentinels' master, each of which ends within ``timeout_s``.

    redis-py's client does more for each command than the trip costs.
    """

    def __init__(self, store: StoreUrl, timeout_s: float) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._retry = Retry(backoff(timeout_s), ATTEMPTS - 1)
        self._pool: Any = pool_of(
            store, timeout_s, max_connections=MAX_CONNECTIONS, wait_s=self.attempt_s
        )

    def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands sent together; an error of Redis is in its reply's place.

        Raises:
            redis.RedisError: there is no reply; it was tried ``ATTEMPTS`` times.
        """
        words = [packed(commands)]
        return self._retry.call_with_retry(
            lambda: exchange(self._pool, words, len(commands)), _go_on
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.disconnect()


def _go_on(_: Exception) -> None:
    """Nothing to do before the next try: the connection is closed already."""


def trips_to(url: str, timeout_s: float) -> Trips | ClusterTrips:
    """Round trips to the state store at this URL.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    if store.kind == "cluster":
        from turnmill.connection.cluster import ClusterTrips  # noqa: PLC0415 - few have one

        return ClusterTrips(store, timeout_s)
    return Trips(store, timeout_s)
