"""A harbour clerk in every framework: one agent with one tool, whose context is a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openai import AsyncOpenAI

from tests.integrations.scripted import ScriptedModel
from turnmill import AsyncContextClient, ContextClient, Policy, Waker


class Clerk(NamedTuple):
    """An agent in one process.

    Attributes:
        ask: a question, in a run of its own.
        pieces: of the answer to a question, as they come.
        failed: how often the session could not be reached.
        session: its name.
    """

    ask: Callable[[str], Awaitable[object]]
    pieces: Callable[[str], Awaitable[list[str]]]
    failed: Callable[[], int]
    session: str = "ann"


@dataclass(frozen=True)
class Process:
    """What a process has: a Redis, a model, and what frameworks themselves ``kept`` elsewhere."""

    url: str
    namespace: str
    model: ScriptedModel
    kept: dict[str, Any]
    open: AsyncExitStack
    policy: Policy = field(default_factory=Policy)
    broker: Waker | None = None

    @property
    def _given(self) -> Any:
        return {"namespace": self.namespace, "timeout_s": 1.0, "broker": self.broker}

    async def client(self) -> AsyncContextClient:
        """A client of its own."""
        return await self.open.enter_async_context(AsyncContextClient(self.url, **self._given))

    def sync_client(self) -> ContextClient:
        """The same, for frameworks that do not await it."""
        return self.open.enter_context(ContextClient(self.url, **self._given))

    def openai(self) -> AsyncOpenAI:
        """The framework's connection to the model."""
        made = AsyncOpenAI(base_url=self.model.base_url, api_key="none", max_retries=0)
        self.open.push_async_callback(made.close)
        return made
