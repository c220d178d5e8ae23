"""LlamaIndex agents of one kind; their model is the example's, so that it is tested, too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from openai import AsyncOpenAI

from tests.integrations.scripted import PROMPT, lying
from turnmill.integrations.llama_index import to_chat

JsonMessage = dict[str, Any]

_spec = spec_from_file_location(
    "llama_index_agent", Path(__file__).parents[2] / "examples" / "llama_index_agent.py"
)
assert _spec is not None
assert _spec.loader is not None
example = sys.modules[_spec.name] = module_from_spec(_spec)
_spec.loader.exec_module(example)


class StreamedChat(example.Chat):  # type: ignore[name-defined,misc]
    """The same, told in pieces as they come."""

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        async def pieces() -> Any:
            async with AsyncOpenAI() as client:
                chat = [to_chat(message) for message in messages]
                asked: Any = {"model": self.model, "messages": chat, "stream": True}
                text = ""
                async for chunk in await client.chat.completions.create(**asked):
                    delta = chunk.choices[0].delta.content or "" if chunk.choices else ""
                    text += delta
                    said = ChatMessage(role="assistant", content=text)
                    yield ChatResponse(message=said, delta=delta)

        return pieces()


def find_ship(ship: str) -> str:
    """Where a ship lies."""
    return lying(ship)


def agent(kind: type[FunctionAgent] = FunctionAgent, **more: Any) -> FunctionAgent:
    return kind(
        **more, llm=example.Chat(), tools=[find_ship], system_prompt=PROMPT, streaming=False
    )
