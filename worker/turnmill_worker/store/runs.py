"""Which run of Redis each namespace's archive was compared with, and the positions to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import redis

from turnmill.contract.keys import in_all_shards, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.registry import COMPARED
from turnmill_worker.ports.records import Tip
from turnmill_worker.store.listed_names import session_named
from turnmill_worker.store.scripts import translated

__all__ = ["RedisRuns"]

CHUNK: Final = 500
"""Sessions of one round trip."""


class RedisRuns:
    """The ``Runs`` port over a redis-py client that does not decode responses.

    A server has another run id after each start, and no two servers have the same.
    """

    def __init__(self, client: Any) -> None:
        self._redis = client

    def uncompared(self, names: Sequence[Namespace]) -> dict[Namespace, str]:
        """Those whose archive was not compared with this run of Redis, which is named."""
        run = self._run() if names else b""
        if not run:
            return {}
        with translated():
            known = self._redis.hmget(COMPARED, names)
        return {name: run.decode() for name, at in zip(names, known, strict=True) if at != run}

    def compared(self, namespace: Namespace, run: str) -> None:
        """Note that the namespace's archive was compared with this run."""
        with translated():
            self._redis.hset(COMPARED, namespace, run)

    def positions(self, namespace: Namespace) -> Iterator[Mapping[SessionId, Tip]]:
        """How far the namespace's sessions have come in Redis, some in each step."""
        for key in in_all_shards(namespace, "index"):
            with translated():
                named = map(session_named, self._redis.zrange(key, 0, -1))
            names = [name for name in named if name]
            for start in range(0, len(names), CHUNK):
                yield self._positions(namespace, names[start : start + CHUNK])

    def _positions(self, namespace: Namespace, names: Sequence[SessionId]) -> dict[SessionId, Tip]:
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(session_keys(namespace, name).meta, "epoch", "last_seq", "version")
            replies = pipe.execute()
        return {
            name: Tip(epoch=epoch.decode(), seq=int(seq or 0), version=int(version or 0))
            for name, (epoch, seq, version) in zip(names, replies, strict=True)
            if epoch
        }

    def _run(self) -> bytes:
        """The run ids of all servers; none where an ACL does not let them be asked."""
        listing = getattr(self._redis, "servers", None)
        servers = [each for _, each in listing()] if listing else [self._redis]
        with translated(), suppress(redis.exceptions.NoPermissionError):
            found = sorted(str(each.info("server")["run_id"]) for each in servers)
            return "+".join(found).encode()
        return b""
