"""Which namespaces there are: what workers list, what clients announce, and what can be found.

Agents may write these lists: what is no name is taken off.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import redis

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.errors import InvalidName, StoreFull
from turnmill.contract.keys import (
    NAMESPACES,
    REGISTERED_CHANNELS,
    REGISTERED_PATTERN,
    RESTING,
    TROUBLED,
    TROUBLED_MS,
    heard_on,
    named_by,
)
from turnmill.contract.names import Namespace, SessionId, namespace, session_id
from turnmill_worker.store.scripts import run, translated


def session_named(member: bytes) -> SessionId | None:
    """The session that a list's member names, or None."""
    with suppress(UnicodeDecodeError, InvalidName):
        return session_id(member.decode())
    return None


def sessions_named(client: Any, key: str, members: Iterable[bytes]) -> list[SessionId]:
    """The sessions that members of a list name; whatever else is there is taken off it."""
    found = [(member, session_named(member)) for member in members]
    drop(client, {key: [member for member, name in found if name is None]})
    return [name for _, name in found if name is not None]


def drop(client: Any, members: Mapping[str, Sequence[bytes]]) -> None:
    """Take members off lists, by the lists' keys."""
    bad = {key: some for key, some in members.items() if some}
    if bad:
        with client.pipeline(transaction=False) as pipe:
            for key, some in bad.items():
                pipe.zrem(key, *some)
            pipe.execute(raise_on_error=False)


def kind_of(error: Exception) -> str:
    """What Redis calls an error, such as WRONGTYPE; nothing of what it choked on."""
    word = str(error).partition(" ")[0]
    return word if word.isalpha() and word.isupper() else type(error).__name__


MOST_HEARD: Final = 10_000
"""Announcements read in one pass; they are repeated."""

SCANNED: Final = 1_000
"""Keys that one look for unlisted namespaces goes through: some 0.3 ms of Redis' time."""

MOST_TOLD: Final = 100
"""Namespaces with trouble that are named."""


class ListKeys(NamedTuple):
    """The key of a set of namespaces, as the script names it."""

    listing: str


@dataclass(slots=True)
class Trouble:
    """What was wrong in one namespace.

    Attributes:
        why: the kind of the newest error.
        errors: lists that could not be read or mended.
        dropped: members that name no session, taken off their lists.
    """

    why: str = ""
    errors: int = 0
    dropped: int = 0


class RedisRegistry:
    """The part of the sweep's lists that is about namespaces themselves."""

    def __init__(self, client: Any) -> None:
        self._redis = client
        self._channel: Any = None
        self._troubles: dict[Namespace, Trouble] = {}

    def namespaces(self) -> list[Namespace]:
        """Those that are listed, and that do not rest."""
        with translated():
            return self._named(NAMESPACES, self._members(NAMESPACES))

    def announced(self) -> set[Namespace]:
        """Those whose clients have said since the last call that they push."""
        found: set[Namespace | None] = set()
        with (
            translated(),
            suppress(redis.exceptions.NoPermissionError),
        ):  # then they are found by their keys
            if self._channel is None:
                self._channel = self._redis.pubsub(ignore_subscribe_messages=True)
                self._channel.psubscribe(REGISTERED_CHANNELS)
            for _ in range(MOST_HEARD):
                message = self._channel.get_message()
                if message is None:
                    break
                found.add(heard_on(message["channel"]))
        return {name for name in found if name}

    def unlisted(self) -> Iterator[list[Namespace]]:
        """Those that are used and not listed: some in each step of a search through all keys."""
        listing = getattr(self._redis, "servers", None)  # of a cluster, each has its own keys
        for server in [each for _, each in listing()] if listing else [self._redis]:
            cursor = -1
            while cursor:
                with translated():
                    cursor, keys = server.scan(max(cursor, 0), REGISTERED_PATTERN, SCANNED)
                    names = self._not_listed({name for name in map(named_by, keys) if name})
                yield names

    def _not_listed(self, names: Collection[Namespace]) -> list[Namespace]:
        asked = sorted(names)
        if not asked:
            return []
        found = zip(
            self._redis.smismember(NAMESPACES, asked),
            self._redis.smismember(RESTING, asked),
            strict=True,
        )
        return [name for name, on in zip(asked, found, strict=True) if not any(on)]

    def resting(self, cursor: int, *, share: float) -> tuple[int, list[Namespace]]:
        """About this share of those at rest, after the cursor; 0 begins, and comes back last."""
        with translated():
            count = math.ceil(share * self._redis.scard(RESTING)) or 1
            cursor, found = self._redis.sscan(RESTING, cursor, count=count)
            return cursor, self._named(RESTING, found)

    def rest(self, names: Collection[Namespace]) -> None:
        """Visit these no longer with every sweep."""
        self._move(names, NAMESPACES, RESTING)

    def wake(self, names: Collection[Namespace]) -> None:
        """Visit these with every sweep again."""
        self._move(names, RESTING, NAMESPACES)

    def take_troubles(self) -> dict[Namespace, Trouble]:
        """What was wrong in namespaces since the last call."""
        taken, self._troubles = self._troubles, {}
        return taken

    def tell(self, troubles: Mapping[Namespace, Trouble]) -> None:
        """Let everybody who looks after the workers know."""
        named = {name: asdict(troubles[name]) for name in sorted(troubles)[:MOST_TOLD]}
        with suppress(StoreFull), translated():
            told = {"at_ms": redis_now_ms(self._redis), "count": len(troubles), "named": named}
            self._redis.set(TROUBLED, json.dumps(told), px=TROUBLED_MS)

    def _trouble(
        self, name: Namespace, error: Exception | None = None, *, dropped: int = 0
    ) -> None:
        """Note what is wrong in a namespace."""
        noted = self._troubles.setdefault(name, Trouble())
        noted.dropped += dropped
        if error is not None:
            noted.errors += 1
            noted.why = kind_of(error)

    def _move(self, names: Collection[Namespace], source: str, target: str) -> None:
        """Into the one set first: a worker that dies between the two forgets no namespace."""
        if names:
            # By a script: a Redis at maxmemory takes no plain SADD, and only sweeps empty it.
            asked = sorted(names)
            for at in range(0, len(asked), SCANNED):
                run(self._redis, "enlist", ListKeys(target), asked[at : at + SCANNED])
            with translated():
                self._redis.srem(source, *asked)

    def _members(self, key: str) -> Collection[bytes]:
        try:
            members: Collection[bytes] = self._redis.smembers(key)
        except redis.ResponseError as error:
            if kind_of(error) != "WRONGTYPE":
                raise
            self._redis.delete(key)  # somebody replaced it; what it listed is found again
            return ()
        return members

    def _named(self, key: str, members: Collection[bytes]) -> list[Namespace]:
        """The namespaces among the members of a set; whatever else is there is taken out."""
        found, bad = [], []
        for member in members:
            try:
                found.append(namespace(member.decode()))
            except (UnicodeDecodeError, InvalidName):
                bad.append(member)
        if bad:
            self._redis.srem(key, *bad)
        return found
