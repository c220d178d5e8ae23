"""LangChain's SummarizationMiddleware, asked before each model call as an agent asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langgraph.graph.message import add_messages

from benchmarks.steps.load import Load
from benchmarks.steps.peers.langchain_messages import LangChainPeer, chat_model
from benchmarks.steps.peers.peer import KEEP_MESSAGES, SOFT


class Middleware(LangChainPeer):
    """Its state is changed by the agents' own reducer."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._model = chat_model(load)
        self._middlewares: dict[int, Any] = {}

    async def context(self, session: str) -> Sequence[Any]:
        window = self.windows[session]
        if window not in self._middlewares:
            self._middlewares[window] = SummarizationMiddleware(
                self._model,
                trigger=("tokens", int(SOFT * window)),
                keep=("messages", KEEP_MESSAGES),
            )
        state: Any = {"messages": self.histories[session]}
        update = await self._middlewares[window].abefore_model(state, None)
        if update:
            changed: Any = add_messages(self.histories[session], update["messages"])
            self.histories[session] = changed
        return self.histories[session]


def memory(load: Load) -> Middleware:
    return Middleware(load)
