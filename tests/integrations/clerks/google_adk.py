"""google-adk: a session service with its plugin."""

from __future__ import annotations

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.integrations.openai import OpenAILlm

from tests.integrations.clerks import Clerk, Process
from tests.integrations.google_adk.clerk import Office, find_ship
from tests.integrations.scripted import PROMPT
from turnmill.integrations.google_adk import TurnmillSessionService

STREAMED = RunConfig.model_validate({"streaming_mode": "sse"})


async def opened(at: Process) -> Clerk:
    """The agent in ADK's own runner."""
    llm = OpenAILlm(model="gpt-4o", client=at.openai())
    agent = LlmAgent(name="clerk", model=llm, tools=[find_ship], instruction=PROMPT)
    office = Office(agent, TurnmillSessionService(await at.client(), at.policy))

    async def pieces(text: str) -> list[str]:
        partial = [event.content for event in await office.ask(text, STREAMED) if event.partial]
        return [str(part.text) for content in partial if content for part in content.parts or ()]

    return Clerk(office.ask, pieces, lambda: office.plugin.counts.failed, office.name)
