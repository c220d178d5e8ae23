"""Round trips of the asynchronous client to Sentinels' master and to a Cluster.

``turnmill.topology`` is the same for threads, and ``_sync/topology.py`` the twin by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import redis
from redis.asyncio import Connection, SSLConnection

from turnmill._async.waiting import Connections, Trips, exchange, pool
from turnmill.commands import Command
from turnmill.store_url import Address, StoreUrl, store_url
from turnmill.topology.routing import Routing, Send
from turnmill.topology.sentinel import Sentinels, is_demoted, is_master, not_master
from turnmill.transport import attempt_s, packed

__all__ = ["trips_to"]


def trips_to(url: str, timeout_s: float) -> Trips | ClusterTrips:
    """Round trips to the state store at this URL.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    match store.kind:
        case "cluster":
            return ClusterTrips(store, timeout_s)
        case "sentinel":
            kind = TlsMasterConnection if store.uses_tls else MasterConnection
            sentinels = Sentinels(store, timeout_s)
            return Trips(store, timeout_s, connection_class=kind, sentinels=sentinels)
        case "single":
            return Trips(store, timeout_s)


class ClusterTrips:
    """Round trips to the nodes of a cluster, each of which ends within ``timeout_s``."""

    def __init__(self, store: StoreUrl, timeout_s: float) -> None:
        self.attempt_s = attempt_s(timeout_s)
        self._store = store
        self._timeout_s = timeout_s
        self._routing = Routing(store.nodes, timeout_s)
        self._pools: dict[Address, Connections] = {}

    async def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to the commands; an error is in its reply's place."""
        steps = self._routing.trip(commands)
        found: Any = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as end:
                replies: list[Any] = end.value
                return replies
            found = None
            if isinstance(step, Send):
                found = await self._sent(step)
            else:
                await asyncio.sleep(step.seconds)

    async def _sent(self, send: Send) -> list[Any] | redis.RedisError:
        if send.node not in self._pools:
            self._pools[send.node] = pool(self._store.server(send.node), self._timeout_s)
        connections, words = self._pools[send.node], packed(send.commands)
        try:
            return await exchange(connections, words, len(send.commands), self.attempt_s)
        except redis.RedisError as error:
            return error

    async def close(self) -> None:
        """Close the connections."""
        for connections in self._pools.values():
            await connections.aclose()


class _ToMaster:
    """Mixed into a redis-py connection: each time it connects, it asks where to."""

    def __init__(self, *, sentinels: Sentinels, **options: Any) -> None:
        super().__init__(**options)
        self._sentinels = sentinels
        self.redis_connect_func: Any = _introduced

    async def _connect(self) -> None:
        self.host, self.port = await _master(self._sentinels)
        await super()._connect()  # type: ignore[misc]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """The reply; a server that was demoted is a lost connection."""
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            if not is_demoted(error):
                raise
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise not_master() from error


class MasterConnection(_ToMaster, Connection):
    """A connection to the master."""


class TlsMasterConnection(_ToMaster, SSLConnection):
    """A connection to the master, with TLS."""


async def _introduced(connection: Any) -> None:
    """Log in, and see that a late Sentinel did not send us to what is a replica by now."""
    await connection.on_connect()
    await connection.send_command("HELLO", check_health=False)  # whatever the user's ACL allows
    if not is_master(await connection.read_response()):
        raise not_master()


async def _master(sentinels: Sentinels) -> Address:
    """The master's address, from the first Sentinel that knows it."""
    for url in sentinels.urls:
        made: Any = redis.asyncio.ConnectionPool.from_url(url, **sentinels.options)
        connection = made.make_connection()
        try:
            await connection.connect()
            await connection.send_command(*sentinels.question)
            found = sentinels.heard(url, await connection.read_response())
        except redis.RedisError:
            continue
        finally:
            await connection.disconnect(nowait=True)
        if found is not None:
            return found
    raise sentinels.nobody()
