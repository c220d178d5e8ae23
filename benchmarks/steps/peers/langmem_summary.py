"""langmem's running summary, made anew before each model call as its documentation shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langmem.short_term import asummarize_messages

from benchmarks.steps.load import Load
from benchmarks.steps.peers.langchain_messages import LangChainPeer, chat_model
from benchmarks.steps.peers.peer import SOFT


class RunningSummary(LangChainPeer):
    """The whole history stays in the state; the summary knows what it stands for."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._model = chat_model(load)
        self._summaries: dict[str, Any] = {}

    async def context(self, session: str) -> Sequence[Any]:
        window = self.windows[session]
        result = await asummarize_messages(
            self.histories[session],
            running_summary=self._summaries.get(session),
            model=self._model,
            max_tokens=window,
            max_tokens_before_summary=int(SOFT * window),
            max_summary_tokens=window // 5,
        )
        self._summaries[session] = result.running_summary
        messages: Sequence[Any] = result.messages
        return messages


def memory(load: Load) -> RunningSummary:
    return RunningSummary(load)
