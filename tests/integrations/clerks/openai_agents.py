"""openai-agents: a session with its filter of what the model is sent."""

from __future__ import annotations

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool

from tests.integrations.clerks import Clerk, Process
from tests.integrations.scripted import PROMPT, lying
from turnmill.integrations.openai_agents import TurnmillSession


@function_tool
def find_ship(ship: str) -> str:
    """Where a ship lies."""
    return lying(ship)


async def opened(at: Process) -> Clerk:
    """The agent in the framework's own runner."""
    session = TurnmillSession("ann", client=await at.client(), policy=at.policy)
    model = OpenAIChatCompletionsModel("gpt-4o", at.openai())
    agent = Agent[Any](name="Clerk", model=model, tools=[find_ship], instructions=PROMPT)
    config = RunConfig(
        call_model_input_filter=session.call_model_input_filter, tracing_disabled=True
    )

    async def pieces(text: str) -> list[str]:
        run = Runner.run_streamed(agent, text, session=session, run_config=config)
        told = [e.data async for e in run.stream_events() if e.type == "raw_response_event"]
        return [each.delta for each in told if each.type == "response.output_text.delta"]

    return Clerk(
        lambda text: Runner.run(agent, text, session=session, run_config=config),
        pieces,
        lambda: session.counts.failed,
    )
