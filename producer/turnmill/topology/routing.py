"""Which node of a Redis Cluster gets which command, and what is sent again; no I/O.

Both clients and the workers drive the same generator: it yields what to send or how long to pause,
and gets back what came of it.

While a slot moves, its keys are on two nodes. A script has a key there that no node holds (the
prefix of the blobs, for those that reach keys they do not name), so that Redis runs it whole on one
node or not at all (TRYAGAIN). Commands of one slot that follow one that was not executed are sent
again with it, in their order: a read's last command is never older than its others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.exceptions import AskError, ClusterDownError, MovedError

from turnmill.commands import Command
from turnmill.store_url import Address
from turnmill.topology.trip_work import Work

__all__ = ["Pause", "Routing", "Send", "Steps"]

PATIENCE: Final = 0.6
"""The share of a call's time after which nothing is sent again: the last try takes the rest."""

HURRIED: Final = 3
"""Redirections of one command that are followed without a pause."""

_SLOTS: Final[Command] = ("CLUSTER", "SLOTS")


class Send(NamedTuple):
    """Send these to that node; the replies, or the error of a connection, are to come back."""

    node: Address
    commands: list[Command]


class Pause(NamedTuple):
    """Wait."""

    seconds: float


Steps = Generator[Send | Pause, Any, list[Any]]


class Routing:
    """What is known of a cluster's nodes; one per client, shared by its threads or tasks."""

    def __init__(
        self,
        seeds: Sequence[Address],
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seeds = tuple(seeds)
        self._timeout_s = timeout_s
        self._clock = clock
        self._nodes: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._failed: Address | None = None
        self._is_stale = True

    def trip(self, commands: Sequence[Command]) -> Steps:
        """The replies to the commands; errors are in their places, those of connections too."""
        work = Work(commands)
        last_s = self._clock() + PATIENCE * self._timeout_s
        rounds = 0
        while True:
            error = (yield from self._learn()) if self._is_stale else None
            asked: dict[int, Address | None] = {}
            for node, indexes, is_asking in work.parts(self._node_of):
                found = error or _no_node()
                if error is None and node is not None:
                    found = yield Send(node, work.words(indexes, is_asking=is_asking))
                if isinstance(found, redis.ConnectionError | redis.TimeoutError):
                    self._failed = node
                work.take(indexes, found, is_asking=is_asking)
                asked |= dict.fromkeys(indexes, node)
            self._heed(work, asked)
            if not work.left or self._clock() > last_s:
                return work.ended()
            rounds += 1
            if work.must_wait or rounds > HURRIED * (len(commands) + 1):
                yield Pause(min(self._timeout_s / 100 * 2 ** min(rounds, 8), self._timeout_s / 20))

    def masters(self) -> Generator[Send | Pause, Any, list[Address]]:
        """The addresses of all masters, as the cluster says now."""
        error = yield from self._learn()
        if error is not None:
            raise error
        return sorted({node for node in self._nodes if node is not None})

    def _node_of(self, slot: int | None) -> Address | None:
        if slot is None:
            return next(filter(None, self._nodes), None)
        return self._nodes[slot]

    def _heed(self, work: Work, asked: Mapping[int, Address | None]) -> None:
        """Learn from the first command of each slot that was not executed."""
        for slot, indexes in work.left.items():
            if indexes[0] not in asked:
                continue  # the one before it was taken to another node, by itself
            reply, node = work.replies[indexes[0]], asked[indexes[0]]
            if isinstance(reply, MovedError) and slot is not None:
                self._nodes[slot] = _told(reply, node)
            elif isinstance(reply, AskError):
                work.asking[slot] = _told(reply, node)
            elif isinstance(reply, ClusterDownError | redis.ConnectionError | redis.TimeoutError):
                self._is_stale = True

    def _learn(self) -> Generator[Send | Pause, Any, redis.RedisError | None]:
        """Ask for the slots; the last error when no node could say."""
        known = [*dict.fromkeys([*filter(None, self._nodes), *self._seeds])]
        error: redis.RedisError = _no_node()
        for node in sorted(known, key=lambda each: each == self._failed):
            found = yield Send(node, [_SLOTS])
            found = found[0] if isinstance(found, list) else found
            if not isinstance(found, redis.RedisError):
                self._nodes = _slots(found, node)
                self._is_stale, self._failed = False, None
                return None
            error = found
        return error


def _told(error: AskError, asked: Address | None) -> Address:
    """Where an error says to go; without a host it means another port of the node asked."""
    host = error.host.strip("[]")
    return host or (asked[0] if asked else ""), int(error.port)


def _slots(reply: Any, asked: Address) -> list[Address | None]:
    nodes: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
    for first, last, (host, port, *_), *_ in reply:
        address = ((host or b"").decode() or asked[0], int(port))
        nodes[first : last + 1] = [address] * (last - first + 1)
    return nodes


def _no_node() -> redis.RedisError:
    return ClusterDownError("no node that was asked serves this slot")
