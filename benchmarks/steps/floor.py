"""The floor: a turn appended to a Redis list, and the last six read back. Nothing is compacted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import redis.asyncio

from benchmarks.steps.load import Load
from benchmarks.steps.turns import Turn

LAST = 6


class Floor:
    """What any agent on Redis pays: one round trip of two commands, JSON there and back."""

    def __init__(self, url: str) -> None:
        self._redis: Any = redis.asyncio.Redis.from_url(url)

    async def open(self, session: str, window: int) -> None:
        pass

    def prepare(self, turn: Turn) -> Turn:
        return turn

    async def step(self, session: str, prepared: Sequence[Turn]) -> bool:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.rpush(session, *[json.dumps(turn) for turn in prepared])
            pipe.lrange(session, -LAST, -1)
            _, last = await pipe.execute()
        [json.loads(turn) for turn in last]
        return False

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        kept = [await self._redis.llen(session) for session in sessions]
        await self._redis.aclose()
        return {"kept": sum(kept)}


def memory(load: Load) -> Floor:
    return Floor(load.redis_url)
