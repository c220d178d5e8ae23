"""What the sweep reads and mends in Redis: every namespace's lists, by Redis' clock alone.

Agents may write these lists. What is wrong in one namespace is noted, and no other has to wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import redis

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import (
    NAMESPACES,
    RESTING,
    SHARDS,
    in_all_shards,
    registry_keys,
    session_keys,
)
from turnmill.contract.names import Namespace
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.namespaces import RedisRegistry, drop, session_named
from turnmill_worker.store.redis_runs import RedisRuns
from turnmill_worker.store.scripts import AHEAD_MS, queue, translated

EXPIRY_CHECKS: Final = 32
"""Sessions per shard checked for expiry in one go, at random, so that all have their turn."""

TOGETHER: Final = 100
"""Namespaces looked at in one round trip."""


Late = tuple[list[SessionRef], list[SessionRef]]
"""What was missed, on two lists."""


class _Member(NamedTuple):
    """A member of a list, as it stands there."""

    namespace: Namespace
    key: str
    raw: bytes
    score: float


class RedisSweepLists(RedisRegistry):
    """All namespaces' lists, by one clock. What is wrong in one is noted and stops no other.

    Without an archive, turns that wait for one are no work.
    """

    def __init__(self, client: Any, *, archive: bool = True) -> None:
        super().__init__(client)
        self._runs = RedisRuns(client) if archive else None
        self._lists = ("backlog", "due", "forgotten", *(("unarchived",) if archive else ()))

    def listed(self, names: Sequence[Namespace]) -> set[Namespace]:
        """Those of them that have something listed, for now or for later."""
        found = set()
        for some in _together(names):
            with translated(), self._redis.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.exists(*in_all_shards(name, *self._lists))
                replies = self._good(some, pipe.execute(raise_on_error=False))
                found |= {some[at] for at, count in replies if count}
        return found

    def now_ms(self) -> int:
        """The time the lists go by."""
        with translated():
            return redis_now_ms(self._redis)

    def missed(self, names: Sequence[Namespace], *, stale_ms: int, now_ms: int, most: int) -> Late:
        """Sessions in the backlog since ``stale_ms``, and sessions due before ``now_ms``."""
        backlog = self._ranges(names, "backlog", stale_ms, most)
        due = self._ranges(names, "due", now_ms - 1, most)
        return [ref for ref, _ in backlog], [ref for ref, _ in due]

    def unarchived(self, names: Sequence[Namespace]) -> list[SessionRef]:
        """Of each that has any, the session that has waited longest for the archive."""
        oldest: dict[Namespace, tuple[SessionRef, float]] = {}
        for found in self._ranges(names, "unarchived", "+inf", 1):
            name = found[0].namespace
            oldest[name] = min(oldest.get(name, found), found, key=itemgetter(1))
        return [ref for ref, _ in oldest.values()]

    def uncompared(self) -> list[SessionRef]:
        """A session each of some namespaces whose archive is to be compared with Redis."""
        if self._runs is None:
            return []
        found: list[SessionRef] = []
        for name, run in self._runs.look(most=TOGETHER).items():
            with translated():
                some = self._sample(name)
            found += some[:1]
            if not some:  # nothing that could be behind
                self._runs.compared(name, run)
        return found

    def forgotten(
        self, names: Sequence[Namespace], *, stale_ms: int, most: int
    ) -> list[SessionRef]:
        """Sessions to forget in the archive since ``stale_ms``."""
        return [ref for ref, _ in self._ranges(names, "forgotten", stale_ms, most)]

    def drop_expired(self, namespace: Namespace) -> bool:
        """Unlist some sessions whose keys have expired, and the namespace when none is left.

        Returns whether there may be more of them.
        """
        with translated():
            found = self._sample(namespace)
            if found:
                with self._redis.pipeline(transaction=False) as pipe:
                    for ref in found:
                        keys = session_keys(namespace, ref.session)
                        queue(pipe, "unlist", keys, session=ref.session, ahead_ms=AHEAD_MS)
                    replies = pipe.execute(raise_on_error=False)
                return any(done for _, done in self._good([namespace] * len(found), replies))
            if self._owes_nothing(namespace):
                self._redis.delete(registry_keys(namespace).registered)
                self._redis.srem(NAMESPACES, namespace)
                self._redis.srem(RESTING, namespace)
                if self._sample(namespace):  # pushed to between the commands
                    self._redis.sadd(NAMESPACES, namespace)
            return False

    def _ranges(
        self, names: Sequence[Namespace], kind: str, through: int | str, most: int
    ) -> list[tuple[SessionRef, float]]:
        """What stands in the lists of a kind up to a score, with its score."""
        members: list[_Member] = []
        for some in _together(names):
            keys = [(name, key) for name in some for key in in_all_shards(name, kind)]
            with translated(), self._redis.pipeline(transaction=False) as pipe:
                for _, key in keys:
                    pipe.zrangebyscore(key, "-inf", through, start=0, num=most, withscores=True)
                replies = pipe.execute(raise_on_error=False)
                for at, reply in self._good([name for name, _ in keys], replies):
                    members += [_Member(*keys[at], raw, score) for raw, score in reply]
        return self._sessions(members, behind=b":" if kind == "forgotten" else b"")

    def _sample(self, namespace: Namespace) -> list[SessionRef]:
        keys = in_all_shards(namespace, "index")
        with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.zrandmember(key, EXPIRY_CHECKS)
            replies = pipe.execute(raise_on_error=False)
        members = [
            _Member(namespace, keys[at], raw, 0.0)
            for at, reply in self._good([namespace] * SHARDS, replies)
            for raw in reply
        ]
        return [ref for ref, _ in self._sessions(members)]

    def _owes_nothing(self, namespace: Namespace) -> bool:
        """Whether no session is still to be forgotten, in the archive or where batches are."""
        return not self._redis.exists(*in_all_shards(namespace, "forgotten"))

    def _good(
        self, names: Sequence[Namespace], replies: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """The replies that are no errors, with their places; an error is its namespace's."""
        for at, (name, reply) in enumerate(zip(names, replies, strict=True)):
            if isinstance(reply, redis.ResponseError):
                self._trouble(name, reply)
            elif isinstance(reply, Exception):
                raise reply
            else:
                yield at, reply

    def _sessions(
        self, members: Sequence[_Member], *, behind: bytes = b""
    ) -> list[tuple[SessionRef, float]]:
        """The sessions that members name, each namespace's in turn; other members are dropped.

        A name stands behind the first ``behind``.
        """
        found: list[tuple[int, SessionRef, float]] = []
        bad: dict[str, list[bytes]] = {}
        places: dict[Namespace, int] = {}
        for name, key, raw, score in members:
            session = session_named(raw.partition(behind)[2] if behind else raw)
            if session is None:
                bad.setdefault(key, []).append(raw)
                self._trouble(name, dropped=1)
                continue
            places[name] = places.get(name, 0) + 1
            found.append((places[name], SessionRef(name, session), score))
        with translated():
            drop(self._redis, bad)
        # Only so many can be hinted in one pass: a long list of one tenant must not be all of them.
        return [(ref, score) for _, ref, score in sorted(found, key=itemgetter(0))]


def _together(names: Sequence[Namespace]) -> Iterator[Sequence[Namespace]]:
    for start in range(0, len(names), TOGETHER):
        yield names[start : start + TOGETHER]
