"""An agent of google-adk that chats without end: its model sees at most 8,192 tokens.

    pip install '.[embedded,google-adk]' openai
    python examples/google_adk_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model (one of
Gemini's takes ``GOOGLE_API_KEY``), ``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D
ends it. The next run goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

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
        with suppress(EOFError):
            while text := input("> "):
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
