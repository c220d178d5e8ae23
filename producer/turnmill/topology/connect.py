"""Connections for threads by the state store's URL, whatever is behind it."""

from __future__ import annotations

from typing import Any

import redis

from turnmill.store_url import StoreUrl, store_url
from turnmill.transport import MAX_CONNECTIONS, Connections, connection_options

__all__ = ["pool_of", "store_client"]


def store_client(
    url: str, timeout_s: float, *, max_connections: int = MAX_CONNECTIONS, **options: Any
) -> redis.Redis:
    """A redis-py client of the state store that does not decode responses.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    if store.kind == "cluster":
        from turnmill.topology.cluster import ClusterClient  # noqa: PLC0415 - few have one

        return ClusterClient(store, timeout_s, max_connections=max_connections)
    pool = pool_of(store, timeout_s, max_connections=max_connections, wait_s=timeout_s, **options)
    return redis.Redis.from_pool(pool)


def pool_of(store: StoreUrl, timeout_s: float, **options: Any) -> Any:
    """Connections to one Redis, or to the master that Sentinels know."""
    options = connection_options(timeout_s) | options
    if store.kind == "sentinel":
        from turnmill.topology.sentinel import Sentinels, master_connection  # noqa: PLC0415

        options["connection_class"] = master_connection(store)
        options["find"] = Sentinels(store, timeout_s).master
    return Connections.from_url(store.server(), **options)
