"""agent-framework: a history provider."""

from __future__ import annotations

from typing import Annotated, Any

from agent_framework import Agent, AgentSession, tool
from agent_framework.openai import OpenAIChatCompletionClient

from tests.integrations.clerks import Clerk, Process
from tests.integrations.scripted import PROMPT, lying
from turnmill.integrations.agent_framework import TurnmillHistoryProvider


@tool(approval_mode="never_require")
def find_ship(ship: Annotated[str, "its name"]) -> str:
    """Where a ship lies."""
    return lying(ship)


def agent_of(at: Process, provider: TurnmillHistoryProvider, *more: Any) -> Agent:
    """The framework's agent."""
    return Agent(
        client=OpenAIChatCompletionClient(model="gpt-4o", async_client=at.openai()),
        instructions=PROMPT,
        tools=[find_ship, *more],
        context_providers=[provider],
        require_per_service_call_history_persistence=True,
    )


async def opened(at: Process) -> Clerk:
    """The agent, in a session of the framework's."""
    provider = TurnmillHistoryProvider(await at.client(), policy=at.policy)
    agent, session = agent_of(at, provider), AgentSession(session_id="ann")

    async def pieces(text: str) -> list[str]:
        stream = agent.run(text, stream=True, session=session)
        return [update.text async for update in stream if update.text]

    return Clerk(
        lambda text: agent.run(text, session=session), pieces, lambda: provider.counts.failed
    )
