"""LlamaIndex: a memory."""

from __future__ import annotations

from llama_index.core.chat_engine import SimpleChatEngine

from tests.integrations.clerks import Clerk, Process
from tests.integrations.llama_index_agents import StreamedChat, agent
from turnmill.integrations.llama_index import ContextMemory


async def opened(at: Process) -> Clerk:
    """An agent of workflows; a chat engine where it streams."""
    memory = ContextMemory.from_defaults("ann", client=await at.client(), policy=at.policy)

    async def ask(text: str) -> object:
        return await agent().run(text, memory=memory)

    async def pieces(text: str) -> list[str]:
        engine = SimpleChatEngine.from_defaults(llm=StreamedChat(), memory=memory)
        streamed = await engine.astream_chat(text)
        return [piece async for piece in streamed.async_response_gen()]

    return Clerk(ask, pieces, lambda: memory.failed)
