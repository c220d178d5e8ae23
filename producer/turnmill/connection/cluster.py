"""A Redis Cluster for threads: round trips over its nodes, and a redis-py client made of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NoReturn

import redis
from redis.client import Pipeline

from turnmill.connection.routing import Routing, Send, Steps, by_slot
from turnmill.connection.sentinel import master_connection
from turnmill.connection.transport import (
    MAX_CONNECTIONS,
    Connections,
    attempt_s,
    connection_options,
    exchange,
    packed,
)
from turnmill.connection.urls import Address, StoreUrl
from turnmill.contract.scripts import Command


class ClusterTrips:
    """Round trips to the nodes of a cluster, each of which ends within ``timeout_s``."""

    def __init__(
        self, store: StoreUrl, timeout_s: float, *, max_connections: int = MAX_CONNECTIONS
    ) -> None:
        self.attempt_s: float = attempt_s(timeout_s)
        self._store = store
        self._routing = Routing(store.nodes, timeout_s)
        self._options = connection_options(timeout_s) | {
            "max_connections": max_connections,
            "wait_s": self.attempt_s,
        }
        self._pools: dict[Address, Any] = {}

    def trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to the commands; an error is in its reply's place.

        ``EXISTS`` and ``DEL`` may be of keys in several slots.
        """
        parts = [by_slot(command) for command in commands]
        flat = iter(self._driven(self._routing.trip([part for each in parts for part in each])))
        return [_sum([next(flat) for _ in each]) for each in parts]

    def masters(self) -> list[Address]:
        """The addresses of all masters.

        Raises:
            redis.RedisError: no node can be asked.
        """
        found: list[Address] = self._driven(self._routing.masters())
        return found

    def pool(self, node: Address) -> Any:
        """The connections to one node."""
        if node not in self._pools:
            # Two threads may make one each; a pool without connections holds nothing.
            made = Connections.from_url(self._store.server(node), **self._options)
            self._pools.setdefault(node, made)
        return self._pools[node]

    def close(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            pool.disconnect()

    def _driven(self, steps: Steps) -> Any:
        """What the steps end with, each of them done."""
        found: Any = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as end:
                return end.value
            found = None
            if isinstance(step, Send):
                found = self._sent(step)
            else:
                time.sleep(step.seconds)

    def _sent(self, send: Send) -> list[Any] | redis.RedisError:
        try:
            return exchange(self.pool(send.node), [packed(send.commands)], len(send.commands))
        except redis.RedisError as error:
            return error


class ClusterClient(redis.Redis):
    """redis-py's client for one server, over a cluster: a command has keys of one slot.

    redis-py's own cluster client retries the commands of a pipeline one by one, each when it can:
    what was sent as one view of a session would no longer be one.
    """

    def __init__(self, store: StoreUrl, timeout_s: float, *, max_connections: int) -> None:
        self.trips: ClusterTrips = ClusterTrips(store, timeout_s, max_connections=max_connections)
        # For pub/sub, whose messages reach every node: whichever is there when it connects.
        pool = Connections.from_url(
            store.server(),
            connection_class=master_connection(store),
            find=lambda: self.trips.masters()[0],
            wait_s=timeout_s,
            **connection_options(timeout_s),
        )
        super().__init__(connection_pool=pool)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """The command's reply as redis-py parses it."""
        [reply] = self.trips.trip([_words(args)])
        if isinstance(reply, redis.RedisError):
            raise reply
        return _parsed(self, args, options, reply)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:  # noqa: FBT001, FBT002 - redis-py's
        """A pipeline; its commands may have keys of several slots."""
        refuse_transaction(is_one=transaction)
        return ClusterPipeline(self, shard_hint)

    def servers(self) -> list[tuple[str, redis.Redis]]:
        """A client for each master, by its address."""
        masters = self.trips.masters()
        return [(f"{h}:{p}", redis.Redis.from_pool(self.trips.pool((h, p)))) for h, p in masters]

    def close(self) -> None:
        """Close the connections."""
        self.connection_pool.disconnect()
        self.trips.close()


class ClusterPipeline(Pipeline):
    """redis-py's pipeline, executed by the cluster's trips."""

    def __init__(self, client: ClusterClient, shard_hint: str | None) -> None:
        callbacks = client.response_callbacks
        super().__init__(client.connection_pool, callbacks, False, shard_hint)  # noqa: FBT003
        self._trips = client.trips

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's
        """The replies; the first error is raised, or all stand in their places."""
        stack: list[Any] = self.command_stack
        self.reset()
        replies = self._trips.trip([_words(args) for args, _ in stack]) if stack else []
        found = []
        for (args, options), reply in zip(stack, replies, strict=True):
            if isinstance(reply, redis.RedisError):
                if raise_on_error:
                    raise reply
                found.append(reply)
            else:
                found.append(_parsed(self, args, options, reply))
        return found

    def watch(self, *_names: Any) -> NoReturn:
        """Nothing is watched: that would take a transaction."""
        raise redis.RedisError("a pipeline over a cluster is no transaction")


def refuse_transaction(*, is_one: bool) -> None:
    """Return if a pipeline is none.

    Raises:
        redis.RedisError: it is one.
    """
    if is_one:
        raise redis.RedisError("a pipeline over a cluster is no transaction")


def _sum(replies: list[Any]) -> Any:
    """The reply to a command from those to its parts."""
    if len(replies) == 1:
        return replies[0]
    error = next((reply for reply in replies if isinstance(reply, redis.RedisError)), None)
    return error or sum(replies)


def _words(args: Sequence[Any]) -> Command:
    """The command as it is sent; redis-py writes some names as two words in one."""
    return (*str(args[0]).split(), *args[1:])


def _parsed(client: Any, args: Sequence[Any], options: dict[str, Any], reply: Any) -> Any:
    parse = client.response_callbacks.get(args[0])
    options = {name: value for name, value in options.items() if name not in ("keys", "_cluster")}
    return parse(reply, **options) if parse else reply
