"""What all namespaces of a Redis hold together; beside ``redis_view`` the only module with keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.errors import InvalidName
from turnmill.contract.keys import (
    NAMESPACES,
    REGISTERED_PATTERN,
    RESTING,
    SHARDS,
    named_by,
    shard_keys,
)
from turnmill.contract.names import Namespace, namespace
from turnmill_cli.redis_view import CommitListener

__all__ = ["Counts", "NamespacesView", "all_namespaces"]

CHUNK = 10
"""Namespaces per round trip."""

SCANNED = 1_000


class Counts(NamedTuple):
    """How many sessions there are, wait to be counted, and are due."""

    sessions: int = 0
    backlog: int = 0
    due: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class NamespacesView:
    """Counts over all namespaces that workers know of."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._resting: dict[Namespace, Counts] = {}
        self.known = 0
        """How many namespaces were counted last."""

    def counts(self) -> Counts:
        """The counts now. Where a namespace rests, nothing changes: it is looked at once."""
        busy, resting = (_members(self._client, key) for key in (NAMESPACES, RESTING))
        self._resting = {name: found for name, found in self._resting.items() if name in resting}
        self._resting.update(self._of(resting - self._resting.keys()))
        total = Counts()
        for found in (*self._of(busy - resting).values(), *self._resting.values()):
            total = total.plus(found)
        self.known = len(busy | resting)
        return total

    def commits(self) -> CommitListener:
        """The commits announced from now on, in every namespace."""
        return CommitListener(self._client.pubsub(ignore_subscribe_messages=True), None)

    def _of(self, names: Iterable[Namespace]) -> dict[Namespace, Counts]:
        found: dict[Namespace, Counts] = {}
        now_ms = redis_now_ms(self._client)
        waiting = iter(names)
        while chunk := list(islice(waiting, CHUNK)):
            with self._client.pipeline(transaction=False) as pipe:
                for name in chunk:
                    for keys in (shard_keys(name, shard) for shard in range(SHARDS)):
                        pipe.zcard(keys.index)
                        pipe.zcount(keys.backlog, "-inf", now_ms)
                        pipe.zcard(keys.due)
                replies = pipe.execute()
            for number, name in enumerate(chunk):
                each = replies[number * 3 * SHARDS : (number + 1) * 3 * SHARDS]
                found[name] = Counts(*(sum(each[at::3]) for at in range(3)))
        return found


def all_namespaces(client: Any) -> list[Namespace]:
    """Every namespace in use, by name: those that workers list, and those that only agents know."""
    found = _members(client, NAMESPACES) | _members(client, RESTING)
    return sorted(found.union(_registered(client)))


def _registered(client: Any) -> Iterator[Namespace]:
    servers = getattr(client, "servers", None)  # of a cluster, each has its own keys
    for server in [each for _, each in servers()] if servers else [client]:
        for key in server.scan_iter(match=REGISTERED_PATTERN, count=SCANNED):
            if name := named_by(key):
                yield name


def _members(client: Any, key: str) -> set[Namespace]:
    found: set[Namespace] = set()
    for member in client.smembers(key):
        with suppress(UnicodeDecodeError, InvalidName):
            found.add(namespace(member.decode()))
    return found
