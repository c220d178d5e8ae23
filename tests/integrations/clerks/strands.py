"""Strands: a conversation manager."""

from __future__ import annotations

from tests.integrations.clerks import Clerk, Process
from tests.integrations.strands_agents import agent_of
from turnmill.integrations.strands import TurnmillConversationManager


async def opened(at: Process) -> Clerk:
    """The agent, whose messages are the context."""
    manager = TurnmillConversationManager(at.sync_client(), "ann", policy=at.policy)
    agent = agent_of(at.model, manager)

    async def pieces(text: str) -> list[str]:
        return [event["data"] async for event in agent.stream_async(text) if "data" in event]

    return Clerk(agent.invoke_async, pieces, lambda: manager.counts.failed)
