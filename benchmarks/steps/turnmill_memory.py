"""turnmill as an agent uses it: a step pushes a turn and reads the next context."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis.asyncio

from benchmarks.steps.load import Load
from benchmarks.steps.turns import Turn
from turnmill import AsyncContextClient, Context, Policy
from turnmill.contract.keys import session_keys
from turnmill.contract.names import namespace, session_id

NAMESPACE = "steps"
LOOK_EVERY = 50
"""Reads between two contexts whose tokens are counted when all is over."""

MOST_LOOKED_AT = 200


class TurnmillMemory:
    """One client for all agents of the process, as it is meant to be."""

    def __init__(self, load: Load, *, counts_by: str = "") -> None:
        self._load = load
        self._client = AsyncContextClient(load.redis_url, namespace=NAMESPACE, counts_by=counts_by)
        self._reads = 0
        self._looked_at: list[Context] = []
        self._windows: dict[str, int] = {}

    async def open(self, session: str, window: int) -> None:
        self._windows[session] = window
        await self._client.open(session, self._policy(window))

    def _policy(self, window: int) -> Policy:
        if self._load.model:
            return Policy(max_tokens=window, summarizer="openai", model="gpt-4o-mini")
        return Policy(max_tokens=window)

    def prepare(self, turn: Turn) -> Turn:
        return turn

    async def step(self, session: str, prepared: Sequence[Turn]) -> bool:
        if len(prepared) == 1:
            context = await self._client.step(session, prepared[0])
        else:
            _, context = await self._client.step_many(session, prepared)
        self._reads += 1
        if self._reads % LOOK_EVERY == 0 and len(self._looked_at) < MOST_LOOKED_AT:
            self._looked_at.append(context)
        return context.projection is not None

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        infos = [await self._client.info(session) for session in sessions]
        hints = self._client.hints
        last = [await self._client.read(session) for session in sessions]
        await self._client.close()
        return {
            "compactions": sum(info.compactions for info in infos),
            "uncounted": sum(info.last_seq - info.counted_seq for info in infos),
            "over": sum(map(self._is_over, [*self._looked_at, *last])),
            "looked_at": len(self._looked_at) + len(last),
            "lost": await self._lost(sessions),
            "hints": hints.published,
        }

    def _is_over(self, context: Context) -> bool:
        """Whether it has more tokens than it may, counted exactly."""
        from turnmill_worker.tokens import count_request, counter_for  # noqa: PLC0415 - a worker's

        return count_request(counter_for(), context.messages) > self._windows[context.session]

    async def _lost(self, sessions: Sequence[str]) -> int:
        """Turns that are neither in the log, nor covered, nor in the archive."""
        found = await self._in_redis(sessions) | self._in_archive(set(sessions))
        return len(sessions) * self._load.turns - len(found)

    async def _in_redis(self, sessions: Sequence[str]) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        server: Any = redis.asyncio.Redis.from_url(self._load.redis_url)
        for name in sessions:
            keys = session_keys(namespace(NAMESPACE), session_id(name))
            found |= {(name, int(at.split(b"-")[0])) for at, _ in await server.xrange(keys.log)}
            found |= {(name, int(entry[b"seq"])) for _, entry in await server.xrange(keys.covered)}
        await server.aclose()
        return found

    def _in_archive(self, sessions: set[str]) -> set[tuple[str, int]]:
        if not Path(self._load.archive).exists():
            return set()
        archive = sqlite3.connect(self._load.archive)
        rows = archive.execute("SELECT session, seq FROM turns").fetchall()
        archive.close()
        return {(session, seq) for session, seq in rows if session in sessions}


def memory(load: Load) -> TurnmillMemory:
    return TurnmillMemory(load)


def counting(load: Load) -> TurnmillMemory:
    """Agents that count what they push."""
    return TurnmillMemory(load, counts_by="o200k_base")
