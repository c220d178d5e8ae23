"""The list in Redis of messages of the broker that were put aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.codec import encode_json
from turnmill.contract.keys import QUARANTINED, QUARANTINED_COUNT, QUARANTINED_KEPT
from turnmill_worker.store.scripts import translated

__all__ = ["RedisQuarantine"]


class RedisQuarantine:
    """The ``QuarantineList`` port over a redis-py client."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def add(self, entries: Sequence[dict[str, object]], *, count: int) -> None:
        """List the newest of them, and count all."""
        with translated():
            at_ms = redis_now_ms(self._redis)
            listed = [encode_json({"at_ms": at_ms, **entry}) for entry in entries]
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.lpush(QUARANTINED, *listed)
                pipe.ltrim(QUARANTINED, 0, QUARANTINED_KEPT - 1)
                pipe.incrby(QUARANTINED_COUNT, count)
                pipe.execute()
