"""openai-agents: a RedisSession in a compaction session, as its runner uses them after a turn.

The decision to compact is one by size, because the default (ten items that are no user's) would
compact every seven turns whatever the window.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import redis.asyncio
from agents.extensions.memory import RedisSession
from agents.memory import OpenAIResponsesCompactionSession

from benchmarks.steps.load import Load
from benchmarks.steps.peers.peer import MODEL, SOFT, Peer, called, client
from benchmarks.steps.turns import JsonMessage, Turn

CHARACTERS_PER_TOKEN = 4


class CompactionSession(Peer):
    """One Redis client and one model client for all sessions."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._redis = redis.asyncio.Redis.from_url(load.redis_url)
        self._client = client(load)
        self._sessions: dict[str, Any] = {}

    async def open(self, session: str, window: int) -> None:
        await super().open(session, window)

        def is_large(context: dict[str, Any]) -> bool:
            length = sum(len(json.dumps(item)) for item in context["session_items"])
            return length > SOFT * window * CHARACTERS_PER_TOKEN

        self._sessions[session] = OpenAIResponsesCompactionSession(
            session,
            RedisSession(session, redis_client=self._redis),
            client=self._client,
            model=MODEL,
            compaction_mode="input",
            should_trigger_compaction=is_large,
        )

    def prepare(self, turn: Turn) -> list[dict[str, Any]]:
        return [_item(each) for each in turn]

    def text(self, message: Any) -> str:
        return json.dumps(message)

    async def append(self, session: str, messages: list[Any]) -> None:
        await self._sessions[session].add_items(messages)
        await self._sessions[session].run_compaction({"compaction_mode": "input"})

    async def context(self, session: str) -> Sequence[Any]:
        items: list[Any] = await self._sessions[session].get_items()
        return items


def _item(message: JsonMessage) -> dict[str, Any]:
    if message["role"] == "tool":
        return {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
    if message.get("tool_calls"):
        return {
            "type": "function_call",
            "call_id": message["tool_calls"][0]["id"],
            **called(message),
        }
    return {"role": message["role"], "content": message["content"]}


def memory(load: Load) -> CompactionSession:
    return CompactionSession(load)
