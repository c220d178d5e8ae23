"""An agent of Microsoft's agent-framework that can be talked to for ever.

    pip install '.[embedded,agent-framework]' agent-framework-openai
    python examples/agent_framework_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The next run goes on where
it was.
"""

import asyncio
import os
from contextlib import suppress
from typing import Annotated

from agent_framework import Agent, AgentSession, tool
from agent_framework.openai import OpenAIChatCompletionClient

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.agent_framework import TurnmillHistoryProvider


@tool(approval_mode="never_require")
def find_ship(ship: Annotated[str, "its name"]) -> str:
    """Where a ship lies."""
    return f"{ship} lies at pier {len(ship)}."


async def main() -> None:
    """Answer lines until there are no more."""
    url = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
    policy = Policy(max_tokens=8192, reserved_tokens=1024)
    async with AsyncContextClient(url, timeout_s=1) as client:
        agent = Agent(
            client=OpenAIChatCompletionClient(model=os.environ.get("MODEL", "gpt-4o-mini")),
            instructions="You are a harbour clerk. Be brief.",
            tools=[find_ship],
            context_providers=[TurnmillHistoryProvider(client, policy=policy)],
            require_per_service_call_history_persistence=True,
        )
        session = AgentSession(session_id="harbour-2")
        with suppress(EOFError):
            while text := input("> "):
                print((await agent.run(text, session=session)).text)
        print(f"{(await client.info('harbour-2')).last_seq} turns in the session")


if __name__ == "__main__":
    asyncio.run(main())
