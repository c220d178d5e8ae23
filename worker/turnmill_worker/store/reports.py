"""What workers tell operators in Redis: bad messages, who summarizes, and what namespaces use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.codec import encode_json
from turnmill.contract.errors import InvalidName, StoreFull
from turnmill.contract.keys import (
    QUARANTINED,
    QUARANTINED_COUNT,
    QUARANTINED_KEPT,
    SUMMARIZERS,
    SUMMARIZERS_MS,
    in_all_shards,
    registry_keys,
    session_keys,
)
from turnmill.contract.names import Namespace, session_id
from turnmill_worker.store.scripts import translated


class RedisQuarantine:
    """The list of messages that were put aside."""

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


class RedisPresence:
    """The list of workers of the queue ``summarize``."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def announce(self, entry: bytes) -> None:
        """List the worker for a minute, and drop those not announced for as long."""
        with translated():
            now_ms = redis_now_ms(self._redis)
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.zadd(SUMMARIZERS, {entry: now_ms})
                pipe.zremrangebyscore(SUMMARIZERS, "-inf", now_ms - SUMMARIZERS_MS)
                pipe.pexpire(SUMMARIZERS, SUMMARIZERS_MS)
                pipe.execute()

    def withdraw(self, entry: bytes) -> None:
        """List the worker no longer."""
        with translated():
            self._redis.zrem(SUMMARIZERS, entry)


SAMPLED: Final = 256
"""Sessions whose memory is looked at; where there are no more, it is no estimate."""

TOLD_MS: Final = 60_000
"""Without workers that measure, quotas refuse nobody for longer than this."""


class RedisUsage:
    """What namespaces use, and what their clients are told."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def sessions(self, name: Namespace) -> int:
        """How many there are."""
        return sum(self._cards(name).values())

    def bytes(self, name: Namespace) -> int:
        """Memory of Redis for them without their images: that of a sample, taken for all."""
        cards = self._cards(name)
        total = sum(cards.values())
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for index, card in cards.items():
                pipe.zrandmember(index, -(-card * SAMPLED // max(total, SAMPLED)))
            found = [raw for reply in pipe.execute() for raw in reply]
        keys = [key for raw in found for key in _own_keys(name, raw)]
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.memory_usage(key)
            sizes = sum(size or 0 for size in pipe.execute())
        return round(sizes * total / len(found)) if found else 0

    def tell(
        self, name: Namespace, over: Mapping[str, tuple[int, int]], rate: float | None
    ) -> None:
        """For a minute, what is used up (use and limit), and how many pushes a second there are."""
        key = registry_keys(name).quota
        told = {"over": json.dumps(over)} if over else {}
        told |= {"rate": str(rate)} if rate else {}
        with suppress(StoreFull), translated(), self._redis.pipeline(transaction=False) as pipe:
            if told:
                pipe.hset(key, mapping=told)
                pipe.pexpire(key, TOLD_MS)
            if gone := {"over", "rate"} - told.keys():
                pipe.hdel(key, *gone)
            pipe.execute()

    def _cards(self, name: Namespace) -> dict[str, int]:
        """How many sessions each shard has that has any, by its index."""
        indexes = in_all_shards(name, "index")
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for index in indexes:
                pipe.zcard(index)
            return {
                index: card for index, card in zip(indexes, pipe.execute(), strict=True) if card
            }


def _own_keys(name: Namespace, raw: bytes) -> tuple[str, ...]:
    with suppress(UnicodeDecodeError, InvalidName):
        return session_keys(name, session_id(raw.decode())).owned
    return ()
