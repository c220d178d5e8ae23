"""pydantic-ai-harness, in the foreground and in the background, by the hook its agents call.

In the background each session has an instance of its own: one holds eight conversations at most.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness import FallbackCompaction, SummarizingCompaction

from benchmarks.steps.load import Load
from benchmarks.steps.peers.peer import KEEP_MESSAGES, MODEL, SOFT, Peer, arguments, called, client
from benchmarks.steps.turns import JsonMessage, Turn

BACKGROUND_START = 0.85


class Harness(Peer):
    """Calls what an agent calls before each model request."""

    def __init__(self, load: Load, *, background: bool) -> None:
        super().__init__(load)
        self._background = background
        self._model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client(load)))
        self._compactions: dict[str, Any] = {}

    async def open(self, session: str, window: int) -> None:
        await super().open(session, window)
        most = int(SOFT * window)
        summarize: Any = SummarizingCompaction(max_tokens=most, keep_messages=KEEP_MESSAGES)
        self._compactions[session] = summarize
        if self._background:
            self._compactions[session] = FallbackCompaction(
                max_tokens=most, background_start=BACKGROUND_START, fallback_chain=[summarize]
            )

    def prepare(self, turn: Turn) -> list[ModelMessage]:
        names = {each["id"]: each["function"]["name"] for each in turn[0].get("tool_calls", ())}
        return [_message(each, names) for each in turn]

    def text(self, message: Any) -> str:
        return json.dumps([_said(part) for part in message.parts])

    async def context(self, session: str) -> Sequence[Any]:
        history = self.histories[session]
        run: Any = RunContext(
            deps=None,
            model=self._model,
            usage=RunUsage(),
            messages=history,
            conversation_id=session,
        )
        request = ModelRequestContext(
            model=self._model,
            messages=list(history),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        made = await self._compactions[session].before_model_request(run, request)
        found: Sequence[Any] = made.messages
        return found

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        found = await super().finish(sessions)
        for each in self._compactions.values():
            if self._background:
                await each.aclose()
        return found


def _said(part: Any) -> str:
    return f"{getattr(part, 'content', '')}{getattr(part, 'args', '')}"


def _message(message: JsonMessage, names: dict[str, str]) -> ModelMessage:
    if message["role"] == "user":
        return ModelRequest([UserPromptPart(message["content"])])
    if message["role"] == "tool":
        call = message["tool_call_id"]
        return ModelRequest([ToolReturnPart(names[call], message["content"], call)])
    if not message.get("tool_calls"):
        return ModelResponse([TextPart(message["content"])])
    call = message["tool_calls"][0]["id"]
    return ModelResponse([ToolCallPart(called(message)["name"], arguments(message), call)])


def foreground(load: Load) -> Harness:
    return Harness(load, background=False)


def background(load: Load) -> Harness:
    return Harness(load, background=True)
