"""A pytest plugin: turnmill's session where openai-agents' tests make one of SQLite or Redis."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import uuid
from typing import Any, Self

import agents
import agents.extensions.memory.redis_session
import agents.memory
import agents.memory.sqlite_session

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.openai_agents import TurnmillSession

NAMESPACES: dict[str, str] = {}
"""By the database that a test names: another has other sessions."""

WIDE = Policy(max_tokens=1_000_000)
"""Their tests are about storing: what they add has room."""


class InPlace(TurnmillSession):
    """Asks the server by a client of the running loop: their tests use one session in several."""

    def __init__(self, session_id: str, place: object = None, session_settings: Any = None) -> None:
        name = str(place) if place not in (None, ":memory:") else uuid.uuid4().hex
        self._namespace = NAMESPACES.setdefault(name, f"t{uuid.uuid4().hex[:12]}")
        self._clients: dict[object, AsyncContextClient] = {}
        super().__init__(session_id, client=None, policy=WIDE, session_settings=session_settings)  # type: ignore[arg-type]

    @property
    def _client(self) -> AsyncContextClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            url = os.environ["TURNMILL_THEIR_REDIS"]
            self._clients[loop] = AsyncContextClient(url, namespace=self._namespace)
        return self._clients[loop]

    @_client.setter
    def _client(self, _: object) -> None:
        """Made when it is needed."""


class InPlaceOfSQLite(InPlace):
    """With what ``SQLiteSession`` is made of."""

    def __init__(
        self,
        session_id: str,
        db_path: object = ":memory:",
        *_: object,
        session_settings: Any = None,
    ) -> None:
        super().__init__(session_id, db_path, session_settings)

    def close(self) -> None:
        """Its connections end with their loops."""


class InPlaceOfRedis(InPlace):
    """With what ``RedisSession`` is made of."""

    def __init__(
        self,
        session_id: str,
        *,
        key_prefix: str = "agents:session",
        session_settings: Any = None,
        **_: object,
    ) -> None:
        super().__init__(session_id, f"redis {key_prefix}", session_settings)

    @classmethod
    def from_url(cls, session_id: str, **more: Any) -> Self:
        """Their tests' server is ours, whatever the URL."""
        return cls(session_id, **more)

    async def ping(self) -> bool:
        """Whether it answers."""
        return await self.get_items(1) is not None

    async def close(self) -> None:
        """Closes the client of this loop."""
        await self._clients.pop(asyncio.get_running_loop(), self._client).close()


class InPlaceOfList(InPlace):
    """With what their tests' ``SimpleListSession`` is made of."""

    def __init__(self, session_id: str = "test", history: list[Any] | None = None) -> None:
        super().__init__(session_id)
        self._history = list(history or [])

    async def _push(self, turns: Any) -> None:
        history, self._history = self._history, []
        if history:
            await InPlace.add_items(self, history)  # not what a test's subclass makes of it
        await super()._push(turns)


# Tests that want it look into RedisSession, or break connections that are not ours: see the docs.
sys.modules["fakeredis"] = None  # type: ignore[assignment]
for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = InPlaceOfSQLite  # type: ignore[attr-defined]
agents.extensions.memory.redis_session.RedisSession = InPlaceOfRedis  # type: ignore[misc, assignment]
# Their `tests`: the folder it runs in comes first.
simple_session: Any = importlib.import_module("tests.utils.simple_session")
simple_session.SimpleListSession = InPlaceOfList
