"""Round trips of the asynchronous client to Redis, without blocking the event loop.

``turnmill.connection`` is the same for threads, and ``_sync/trips.py`` the twin by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import redis
from redis.asyncio import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry

from turnmill.connection.routing import Routing, Send
from turnmill.connection.sentinel import Sentinels, is_demoted, is_master, not_master
from turnmill.connection.transport import (
    ATTEMPTS,
    LOOK_AFTER_S,
    MAX_CONNECTIONS,
    attempt_s,
    backoff,
    connection_options,
    packed,
)
from turnmill.connection.urls import Address, StoreUrl, store_url
from turnmill.contract.scripts import Command

in_thread = asyncio.to_thread

TIMED_TOGETHER = 8
"""Replies that may together take as long as a call may wait: a timer costs half a reply."""


class Connections(ConnectionPool):
    """The transport's ``Connections`` for an event loop: only callers without one wait."""

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
