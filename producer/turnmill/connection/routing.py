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
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, NoScriptError, TryAgainError

from turnmill.connection.urls import Address
from turnmill.contract.scripts import Command, source_of

_UNEXECUTED: Final = (
    AskError,  # and MOVED
    TryAgainError,
    ClusterDownError,
    NoScriptError,
    redis.ConnectionError,
    redis.TimeoutError,
)
_READS: Final = frozenset({"HMGET", "GET", "HGETALL", "XRANGE"})
_KEYLESS: Final = frozenset({"TIME", "PING", "INFO", "SCRIPT", "CONFIG", "CLUSTER", "PUBLISH"})


class Work:
    """The commands of one trip, by slot, and what came of them so far.

    Attributes:
        left: by slot, the commands still to be executed, in their order.
        asking: nodes that the first of them is to be taken to, with ASKING.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.replies: list[Any] = [None] * len(commands)
        self.left: dict[int | None, list[int]] = {}
        self.asking: dict[int | None, Address] = {}
        for index, command in enumerate(commands):
            self.left.setdefault(_slot(command), []).append(index)

    @property
    def must_wait(self) -> bool:
        """Whether sending again at once would be no use."""
        first = (self.replies[indexes[0]] for indexes in self.left.values())
        return any(
            _is_unexecuted(reply) and not isinstance(reply, AskError | NoScriptError)
            for reply in first
        )

    def ended(self) -> list[Any]:
        """The replies; what was not executed after all has an error, whatever it had before."""
        for indexes in self.left.values():
            error = self.replies[indexes[0]]
            if not _is_unexecuted(error):
                error = TryAgainError("the slot is being moved")
            for index in indexes:
                self.replies[index] = error
        return self.replies

    def parts(
        self, node_of: Callable[[int | None], Address | None]
    ) -> list[tuple[Address | None, list[int], bool]]:
        """What to send next: to whom, which commands, and whether with ASKING."""
        asking, self.asking = self.asking, {}
        parts: list[tuple[Address | None, list[int], bool]] = []
        by_node: dict[Address | None, list[int]] = {}
        for slot, indexes in self.left.items():
            if slot in asking:
                parts.append((asking[slot], indexes[:1], True))
            else:
                by_node.setdefault(node_of(slot), []).extend(indexes)
        return parts + [(node, sorted(indexes), False) for node, indexes in by_node.items()]

    def words(self, indexes: Sequence[int], *, is_asking: bool) -> list[Command]:
        """The commands as they are sent: the first of a script with its source, if others follow.

        Were the script unknown to the node and made known between two of them, the first would
        be executed after the second. Reads may follow: what does not succeed is sent again with
        all that follows it.
        """
        alone = sum(self.commands[index][0] not in _READS for index in indexes) == 1
        found: list[Command] = [("ASKING",)] if is_asking else []
        known: set[Any] = set()
        for index in indexes:
            command = self.commands[index]
            unknown = isinstance(self.replies[index], NoScriptError)
            if command[0] == "EVALSHA" and (unknown or (not alone and command[1] not in known)):
                source = source_of(str(command[1]))
                known.add(command[1])
                command = ("EVAL", source, *command[2:]) if source else command
            found.append(command)
        return found

    def take(self, indexes: Sequence[int], found: Any, *, is_asking: bool) -> None:
        """Note the replies, or the error instead of them."""
        replies = found[1:] if is_asking and isinstance(found, list) else found
        for at, index in enumerate(indexes):
            self.replies[index] = replies[at] if isinstance(replies, list) else replies
        sent = set(indexes)
        for slot, left in [*self.left.items()]:
            if left[0] not in sent:
                continue
            begin = next(
                (
                    at
                    for at, i in enumerate(left)
                    if i not in sent or _is_unexecuted(self.replies[i])
                ),
                len(left),
            )
            self.left[slot] = left[begin:]
            if not self.left[slot]:
                del self.left[slot]


def by_slot(command: Command) -> list[Command]:
    """The command in parts, each for the keys of one slot, if it counts keys of several."""
    if command[0] not in {"EXISTS", "DEL"}:
        return [command]
    slots: dict[int | None, list[Any]] = {}
    for key in command[1:]:
        slots.setdefault(_slot((command[0], key)), []).append(key)
    return [(command[0], *keys) for keys in slots.values()]


def _is_unexecuted(reply: Any) -> bool:
    return isinstance(reply, _UNEXECUTED)


def _slot(command: Command) -> int | None:
    """The slot of the command's first key; None where it has none."""
    is_script = command[0] in {"EVAL", "EVALSHA"}
    at = 3 if is_script else 1
    if len(command) <= at or command[0] in _KEYLESS or (is_script and not int(command[2])):
        return None
    key = command[at]
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


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
