"""What MCP servers offer an agent of agent-framework's counts against the limit."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Agent, AgentSession, MCPStdioTool
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from tests.integrations import harbour_server
from tests.integrations.scripted import Said, serving
from turnmill import AsyncContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.integrations.agent_framework import TurnmillHistoryProvider


async def test_tools_of_connected_mcp_servers_count(store: EmbeddedRedis) -> None:
    harbour = MCPStdioTool("harbour", sys.executable, args=[harbour_server.__file__])
    with serving(lambda _: Said("Fine.")) as model:
        async with (
            AsyncContextClient(store.url) as client,
            AsyncOpenAI(base_url=model.base_url, api_key="none") as openai,
            Agent(
                client=OpenAIChatCompletionClient(model="gpt-4o", async_client=openai),
                tools=[harbour],
                context_providers=[TurnmillHistoryProvider(client)],
            ) as agent,
        ):
            await agent.run("Hello", session=AgentSession(session_id="ann"))
            assert (await client.info("ann")).tools_tokens > 20
