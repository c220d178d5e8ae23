"""What the sweep reads and mends in Redis: every namespace's lists, by Redis' clock alone."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from turnmill.contract.keys import NAMESPACES, SHARDS, ShardKeys, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.transport import redis_now_ms
from turnmill_worker.ports.sweep import Late
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.scripts import queue, translated

__all__ = ["RedisSweepLists"]

EXPIRY_CHECKS: Final = 32
"""Sessions per shard checked for expiry in one go, at random, so that all have their turn."""


class RedisSweepLists:
    """The ``SweepLists`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def namespaces(self) -> list[Namespace]:
        """All namespaces."""
        with translated():
            return [Namespace(name.decode()) for name in sorted(self._redis.smembers(NAMESPACES))]

    def now_ms(self) -> int:
        """The time the lists go by."""
        with translated():
            return redis_now_ms(self._redis)

    def missed(self, namespace: Namespace, *, stale_ms: int, now_ms: int, most: int) -> Late:
        """Sessions in the backlog since ``stale_ms``, and sessions due before ``now_ms``."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for keys in _shards(namespace):
                pipe.zrangebyscore(keys.backlog, "-inf", stale_ms, start=0, num=most)
                pipe.zrangebyscore(keys.due, "-inf", now_ms - 1, start=0, num=most)
            replies = pipe.execute()
        return _refs(namespace, replies[0::2]), _refs(namespace, replies[1::2])

    def unarchived(self, namespace: Namespace) -> SessionRef | None:
        """The session that has waited longest for the archive, or None."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for keys in _shards(namespace):
                pipe.zrange(keys.unarchived, 0, 0, withscores=True)
            found = [entry for reply in pipe.execute() for entry in reply]
        if not found:
            return None
        oldest, _ = min(found, key=itemgetter(1))
        return SessionRef(namespace, SessionId(oldest.decode()))

    def forgotten(self, namespace: Namespace, *, stale_ms: int, most: int) -> list[SessionRef]:
        """Sessions to forget in the archive since ``stale_ms``."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for keys in _shards(namespace):
                pipe.zrangebyscore(keys.forgotten, "-inf", stale_ms, start=0, num=most)
            replies = pipe.execute()
        return _refs(namespace, [[each.partition(b":")[2] for each in reply] for reply in replies])

    def drop_expired(self, namespace: Namespace) -> None:
        """Unlist sessions whose keys have expired, and the namespace when none is left."""
        with translated():
            found = self._sample(namespace)
            if found:
                with self._redis.pipeline(transaction=False) as pipe:
                    for ref in found:
                        keys = session_keys(namespace, ref.session)
                        queue(pipe, "unlist", keys, session=ref.session)
                    pipe.execute()
            elif self._owes_nothing(namespace):
                self._redis.srem(NAMESPACES, namespace)
                if self._sample(namespace):  # pushed to between the two commands
                    self._redis.sadd(NAMESPACES, namespace)

    def _sample(self, namespace: Namespace) -> list[SessionRef]:
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in _shards(namespace):
                pipe.zrandmember(keys.index, EXPIRY_CHECKS)
            return _refs(namespace, pipe.execute())

    def _owes_nothing(self, namespace: Namespace) -> bool:
        """Whether no session is still to be forgotten, in the archive or where batches are."""
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in _shards(namespace):
                pipe.exists(keys.forgotten)
            return not any(pipe.execute())


def _shards(namespace: Namespace) -> list[ShardKeys]:
    return [shard_keys(namespace, shard) for shard in range(SHARDS)]


def _refs(namespace: Namespace, replies: Sequence[Sequence[bytes]]) -> list[SessionRef]:
    return [SessionRef(namespace, SessionId(n.decode())) for reply in replies for n in reply]
