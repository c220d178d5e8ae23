"""The commands of one trip to a Redis Cluster: by slot, and what came of them so far; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, NoScriptError, TryAgainError

from turnmill.commands import Command
from turnmill.contract.scripts import source_of
from turnmill.store_url import Address

__all__ = ["Work", "by_slot"]

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
