"""Which run of Redis the archives were compared with, and the positions to compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import redis

from turnmill.contract.keys import NAMESPACES, RESTING, UNCOMPARED, in_all_shards, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.failover.branches import Tip
from turnmill_worker.store.namespaces import ListKeys, session_named
from turnmill_worker.store.scripts import run as run_script
from turnmill_worker.store.scripts import translated

CHUNK: Final = 500
"""Sessions, or namespaces, of one round trip."""

_KEYS: Final = ListKeys(UNCOMPARED)


class RedisRuns:
    """Which runs of Redis there were, over a redis-py client that does not decode responses.

    A server has another run id after each start, and no two servers have the same.
    """

    def __init__(self, client: Any) -> None:
        self._redis = client

    def look(self, *, most: int) -> dict[Namespace, str]:
        """Namespaces to compare with this run of Redis; all, as soon as it is another one."""
        run = self._run()
        if not run:
            return {}
        with translated():
            known = self._redis.hget(UNCOMPARED, "")
        if known != run.encode():
            # What was never noted was never compared either: there is nothing to go by.
            self._note(run, self._listed() if known else ())
        return self._to_compare(most)

    def uncompared(self, namespace: Namespace) -> str:
        """The run that its archive is to be compared with; ``""`` when that is done."""
        with translated():
            return (self._redis.hget(UNCOMPARED, namespace) or b"").decode()

    def compared(self, namespace: Namespace, run: str) -> None:
        """Its archive was compared with this run."""
        run_script(self._redis, "compared", _KEYS, namespace=namespace, run=run)

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

    def _run(self) -> str:
        """The run ids of all servers; none where an ACL does not let them be asked."""
        listing = getattr(self._redis, "servers", None)
        servers = [each for _, each in listing()] if listing else [self._redis]
        with translated(), suppress(redis.exceptions.NoPermissionError):
            return "+".join(sorted(str(each.info("server")["run_id"]) for each in servers))
        return ""

    def _listed(self) -> list[bytes]:
        with translated(), suppress(redis.ResponseError):  # a list replaced by somebody is mended
            return [*chain(*map(self._redis.smembers, (NAMESPACES, RESTING)))]
        return []

    def _note(self, run: str, names: Iterable[bytes]) -> None:
        """The run itself last: a worker that dies meanwhile leaves it to another."""
        rest = [name.decode("utf-8", "replace") for name in names]
        for start in range(0, len(rest), CHUNK):
            run_script(self._redis, "uncompared", _KEYS, rest[start : start + CHUNK], run=run)
        run_script(self._redis, "uncompared", _KEYS, [""], run=run)

    def _to_compare(self, most: int) -> dict[Namespace, str]:
        with translated():
            _, found = self._redis.hscan(UNCOMPARED, 0, count=most)
        return {Namespace(name.decode()): run.decode() for name, run in found.items() if name}
