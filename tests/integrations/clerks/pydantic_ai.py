"""pydantic-ai: a history processor."""

from __future__ import annotations

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.integrations.clerks import Clerk, Process
from tests.integrations.scripted import PROMPT, lying
from turnmill.integrations.pydantic_ai import history_processor


async def opened(at: Process) -> Clerk:
    """The agent, whose history the program keeps as JSON."""
    history = history_processor(await at.client(), "ann", policy=at.policy)
    llm = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=at.openai()))
    agent = Agent(llm, system_prompt=PROMPT, capabilities=[history])

    @agent.tool_plain
    def find_ship(ship: str) -> str:
        """Where a ship lies."""
        return lying(ship)

    async def pieces(text: str) -> list[str]:
        said = ModelMessagesTypeAdapter.validate_json(at.kept.get("said", "[]"))
        async with agent.run_stream(text, message_history=said) as run:
            told = [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
        at.kept["said"] = run.all_messages_json()
        return told

    async def ask(text: str) -> object:
        said = ModelMessagesTypeAdapter.validate_json(at.kept.get("said", "[]"))
        run = await agent.run(text, message_history=said)
        at.kept["said"] = run.all_messages_json()
        return run.output

    return Clerk(ask, pieces, lambda: history.counts.failed)
