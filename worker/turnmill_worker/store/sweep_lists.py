"""What the sweep reads and mends in Redis: every namespace's lists, by Redis' clock alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from turnmill.contract.keys import (
    NAMESPACES,
    RESTING,
    SHARDS,
    in_all_shards,
    session_keys,
)
from turnmill.contract.names import Namespace, SessionId
from turnmill.transport import redis_now_ms
from turnmill_worker.ports.sweep import Late
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.scripts import AHEAD_MS, queue, translated

__all__ = ["RedisSweepLists"]

EXPIRY_CHECKS: Final = 32
"""Sessions per shard checked for expiry in one go, at random, so that all have their turn."""

TOGETHER: Final = 100
"""Namespaces looked at in one round trip."""


class RedisSweepLists:
    """The ``SweepLists`` port over a redis-py client that does not decode responses.

    Without an archive, turns that wait for one are no work.
    """

    def __init__(self, client: Any, *, archive: bool = True) -> None:
        self._redis = client
        self._lists = ("backlog", "due", "forgotten", *(("unarchived",) if archive else ()))

    def namespaces(self) -> list[Namespace]:
        """Those that clients registered, and that do not rest."""
        with translated():
            return [Namespace(name.decode()) for name in self._redis.smembers(NAMESPACES)]

    def resting(self, cursor: int, *, share: float) -> tuple[int, list[Namespace]]:
        """About this share of those at rest, after the cursor; 0 begins, and comes back last."""
        with translated():
            count = math.ceil(share * self._redis.scard(RESTING)) or 1
            cursor, found = self._redis.sscan(RESTING, cursor, count=count)
        return cursor, [Namespace(name.decode()) for name in found]

    def listed(self, names: Sequence[Namespace]) -> set[Namespace]:
        """Those of them that have something listed, for now or for later."""
        replies: list[int] = []
        for some in _together(names):
            with translated(), self._redis.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.exists(*in_all_shards(name, *self._lists))
                replies += pipe.execute()
        return {name for name, count in zip(names, replies, strict=True) if count}

    def rest(self, names: Collection[Namespace]) -> None:
        """Visit these no longer with every sweep."""
        self._move(names, NAMESPACES, RESTING)

    def wake(self, names: Collection[Namespace]) -> None:
        """Visit these with every sweep again."""
        self._move(names, RESTING, NAMESPACES)

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

    def forgotten(
        self, names: Sequence[Namespace], *, stale_ms: int, most: int
    ) -> list[SessionRef]:
        """Sessions to forget in the archive since ``stale_ms``."""
        found = self._ranges(names, "forgotten", stale_ms, most)
        members = [(ref.namespace, ref.session.partition(":")[2]) for ref, _ in found]
        return [SessionRef(name, SessionId(session)) for name, session in members]

    def drop_expired(self, namespace: Namespace) -> bool:
        """Unlist some sessions whose keys have expired, and the namespace when none is left."""
        with translated():
            found = self._sample(namespace)
            if found:
                with self._redis.pipeline(transaction=False) as pipe:
                    for ref in found:
                        keys = session_keys(namespace, ref.session)
                        queue(pipe, "unlist", keys, session=ref.session, ahead_ms=AHEAD_MS)
                    return any(pipe.execute())
            if self._owes_nothing(namespace):
                self._redis.srem(NAMESPACES, namespace)
                self._redis.srem(RESTING, namespace)
                if self._sample(namespace):  # pushed to between the two commands
                    self._redis.sadd(NAMESPACES, namespace)
            return False

    def _move(self, names: Collection[Namespace], source: str, target: str) -> None:
        """Into the one set first: a worker that dies between the two forgets no namespace."""
        if names:
            with translated():
                self._redis.sadd(target, *names)
                self._redis.srem(source, *names)

    def _ranges(
        self, names: Sequence[Namespace], kind: str, through: int | str, most: int
    ) -> list[tuple[SessionRef, float]]:
        """What stands in the lists of a kind up to a score, with its score."""
        found: list[tuple[SessionRef, float]] = []
        for some in _together(names):
            with translated(), self._redis.pipeline(transaction=False) as pipe:
                for name in some:
                    for key in in_all_shards(name, kind):
                        pipe.zrangebyscore(key, "-inf", through, start=0, num=most, withscores=True)
                replies = pipe.execute()
            for at, reply in enumerate(replies):
                for member, score in reply:
                    ref = SessionRef(some[at // SHARDS], SessionId(member.decode()))
                    found.append((ref, score))
        return found

    def _sample(self, namespace: Namespace) -> list[SessionRef]:
        with self._redis.pipeline(transaction=False) as pipe:
            for key in in_all_shards(namespace, "index"):
                pipe.zrandmember(key, EXPIRY_CHECKS)
            replies = pipe.execute()
        return [SessionRef(namespace, SessionId(n.decode())) for reply in replies for n in reply]

    def _owes_nothing(self, namespace: Namespace) -> bool:
        """Whether no session is still to be forgotten, in the archive or where batches are."""
        return not self._redis.exists(*in_all_shards(namespace, "forgotten"))


def _together(names: Sequence[Namespace]) -> Iterator[Sequence[Namespace]]:
    for start in range(0, len(names), TOGETHER):
        yield names[start : start + TOGETHER]
