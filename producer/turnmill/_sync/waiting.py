"""What waiting takes in threads. ``_async/waiting.py`` is its twin by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from redis import Redis
from redis.retry import Retry

from turnmill.transport import ATTEMPTS, MAX_CONNECTIONS, Connections, backoff, connection_options

__all__ = ["Redis", "connect", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What the function returns; the caller waits in a thread already."""
    return function(*args, **options)


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
    del client.response_callbacks["XRANGE"]  # type: ignore[no-untyped-call]  # a dict per entry, unused
    return client
