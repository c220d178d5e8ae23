"""What the peers share: a history a session, in the process, and a look at some of the contexts."""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from typing import Any

from openai import AsyncOpenAI

from benchmarks.steps.load import Load
from benchmarks.steps.turns import Turn

__all__ = ["KEEP_MESSAGES", "KEY", "MODEL", "SOFT", "Peer", "client"]

MODEL = "gpt-4o-mini"
KEY = "sk-for-benchmarks-only"

SOFT = 0.8
"""The share of the window above which it is summarized, as turnmill has it by default."""

KEEP_MESSAGES = 9
"""Six turns."""

LOOK_EVERY = 50
MOST_LOOKED_AT = 100


def client(load: Load) -> AsyncOpenAI:
    """Of the model."""
    return AsyncOpenAI(api_key=KEY, base_url=load.model_url)


class Peer(abc.ABC):
    """A memory that keeps its messages in a list: appends, then makes the next context of them."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.histories: dict[str, list[Any]] = {}
        self.windows: dict[str, int] = {}
        self._steps = 0
        self._looked_at: list[str] = []

    async def open(self, session: str, window: int) -> None:
        self.histories[session] = []
        self.windows[session] = window

    @abc.abstractmethod
    def prepare(self, turn: Turn) -> list[Any]:
        """The turn's messages as the peer has them."""

    @abc.abstractmethod
    async def context(self, session: str) -> Sequence[Any]:
        """What the model would be sent now."""

    @abc.abstractmethod
    def text(self, message: Any) -> str:
        """All that is said in a message."""

    async def append(self, session: str, messages: list[Any]) -> None:
        """Store them."""
        self.histories[session].extend(messages)

    async def step(self, session: str, prepared: Sequence[list[Any]]) -> bool:
        await self.append(session, [message for turn in prepared for message in turn])
        context = await self.context(session)
        counts = self.windows[session] == self.load.window  # the warm-up has another
        self._steps += counts
        if counts and self._steps % LOOK_EVERY == 0 and len(self._looked_at) < MOST_LOOKED_AT:
            self._looked_at.append(self._joined(context))
        return False

    def _joined(self, context: Sequence[Any]) -> str:
        return "\n".join(map(self.text, context))

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        """Some contexts, and each session's last, as texts: who asked counts them."""
        last = [self._joined(await self.context(session)) for session in sessions]
        return {"contexts": self._looked_at, "last": last}


def called(message: dict[str, Any]) -> dict[str, Any]:
    """The function a message calls."""
    function: dict[str, Any] = message["tool_calls"][0]["function"]
    return function


def arguments(message: dict[str, Any]) -> dict[str, Any]:
    """What it is called with."""
    found: dict[str, Any] = json.loads(called(message)["arguments"])
    return found
