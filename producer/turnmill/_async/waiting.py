"""What waiting takes without blocking the event loop. ``_sync/io.py`` is written by hand, too."""

from __future__ import annotations

import asyncio

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry

from turnmill.transport import ATTEMPTS, MAX_CONNECTIONS, backoff, connection_options

__all__ = ["Redis", "connect", "in_thread"]

in_thread = asyncio.to_thread


def connect(url: str, timeout_s: float) -> Redis:
    """A client of its own pool, whose calls end within ``timeout_s``."""
    # Blocking: with more callers than connections, callers wait; a plain pool would raise.
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        timeout=timeout_s,
        retry=Retry(backoff(timeout_s), ATTEMPTS - 1),
        **connection_options(timeout_s),
    )
    client = Redis.from_pool(pool)
    del client.response_callbacks["XRANGE"]  # a dict per entry, unused
    return client
