"""Connections for threads by the state store's URL, whatever is behind it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import redis

from turnmill.connection.transport import MAX_CONNECTIONS, Connections, connection_options
from turnmill.connection.urls import StoreUrl, store_url
from turnmill.contract.sealing import Cipher


def store_client(
    url: str,
    timeout_s: float,
    *,
    max_connections: int = MAX_CONNECTIONS,
    cipher: Cipher | None = None,
    **options: Any,
) -> redis.Redis:
    """A redis-py client of the state store that does not decode responses, and seals secrets.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    if store.kind == "cluster":
        from turnmill.connection.cluster import ClusterClient  # noqa: PLC0415 - few have one

        made: Any = ClusterClient if cipher is None else _sealed().SealedCluster
        made = made(store, timeout_s, max_connections=max_connections)
    else:
        limits = {"max_connections": max_connections, "wait_s": timeout_s}
        kind = redis.Redis if cipher is None else _sealed().SealedClient
        made = kind.from_pool(pool_of(store, timeout_s, **limits, **options))
    if cipher is not None:
        made.cipher = cipher
    client: redis.Redis = made
    return client


def _sealed() -> ModuleType:
    from turnmill.connection import sealed  # noqa: PLC0415 - few have a cipher

    return sealed


def pool_of(store: StoreUrl, timeout_s: float, **options: Any) -> Any:
    """Connections to one Redis, or to the master that Sentinels know."""
    options = connection_options(timeout_s) | options
    if store.kind == "sentinel":
        from turnmill.connection.sentinel import Sentinels, master_connection  # noqa: PLC0415

        options["connection_class"] = master_connection(store)
        options["find"] = Sentinels(store, timeout_s).master
    return Connections.from_url(store.server(), **options)
