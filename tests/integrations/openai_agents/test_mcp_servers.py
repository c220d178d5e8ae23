"""What MCP servers offer an agent counts against the limit."""

from __future__ import annotations

import sys
from typing import Any

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner
from agents.mcp import MCPServerStdio

from tests.integrations import harbour_server
from tests.integrations.openai_agents.scripted import ScriptedResponses, message
from turnmill import AsyncContextClient
from turnmill.integrations.openai_agents import TurnmillSession


async def test_tools_of_mcp_servers_count(
    endpoint: ScriptedResponses, model: OpenAIResponsesModel, client: AsyncContextClient
) -> None:
    session = TurnmillSession("s", client=client)
    config = RunConfig(call_model_input_filter=session.call_model_input_filter)
    endpoint.outputs.append([message("Fine.")])
    params: Any = {"command": sys.executable, "args": [harbour_server.__file__]}

    async with MCPServerStdio(params, client_session_timeout_seconds=60) as harbour:
        agent = Agent(name="Clerk", model=model, mcp_servers=[harbour])
        await Runner.run(agent, "Look.", session=session, run_config=config)

    assert [tool["name"] for tool in endpoint.requests[-1].body["tools"]] == ["find_owner"]
    assert (await client.info("s")).tools_tokens > 20
    assert session.counts.unfiltered == 0
