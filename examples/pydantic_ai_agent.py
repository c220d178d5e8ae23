"""An agent of pydantic-ai that can be talked to for ever: its model sees a managed context.

    pip install '.[embedded,pydantic-ai]' openai
    python examples/pydantic_ai_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The agent's own history is
in memory: each run is a conversation of its own.
"""

import asyncio
import os
from contextlib import suppress
from uuid import uuid4

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.pydantic_ai import history_processor


def find_ship(name: str) -> str:
    """Where a ship lies in the harbour."""
    return f"{name} lies at pier {len(name) % 9 + 1}."


async def main() -> None:
    """Answer line by line."""
    url = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
    session = f"harbour-{uuid4().hex[:8]}"
    async with AsyncContextClient(url, timeout_s=1) as client:
        history = history_processor(client, session=session, policy=Policy.managed(max_tokens=8192))
        agent = Agent(
            os.environ.get("MODEL", "openai:gpt-5-mini"),
            instructions="You are a harbour clerk. Be brief.",
            tools=[find_ship],
            capabilities=[history],
        )
        said: list[ModelMessage] = []
        with suppress(EOFError):
            while text := input("> "):
                result = await agent.run(text, message_history=said)
                said = result.all_messages()
                print(result.output)
        print(f"{(await client.info(session)).last_seq} turns in the session")


if __name__ == "__main__":
    asyncio.run(main())
