"""A harbour clerk: an agent of ADK's, its tools, and a model endpoint that calls them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.integrations.openai import OpenAILlm
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types
from openai import AsyncOpenAI

from tests.integrations.scripted import PROMPT, Said, lying, serving
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations
from turnmill.integrations.google_adk import ContextPlugin, TurnmillSessionService
from turnmill_worker.tokens import count_request, counter_for

APP, USER, SESSION = "harbour", "anna@example.org", "s 1"
_SHIP = re.compile(r"Question \d+: where is ship (S\d+)\?")


class ClerkEndpoint:
    """A model over HTTP that asks two tools at once about a ship, and answers by a sentence."""

    def __init__(self) -> None:
        self.latency_s = 0.0
        self.clients: list[AsyncOpenAI] = []
        self.decide: Callable[[list[JsonMessage]], Said] = decide
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._model = self._stack.enter_context(serving(self._say))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _say(self, messages: list[JsonMessage]) -> Said:
        time.sleep(self.latency_s)
        return self.decide(messages)

    @property
    def base_url(self) -> str:
        """Where it is."""
        return self._model.base_url

    @property
    def shown(self) -> list[list[JsonMessage]]:
        """The messages of each request."""
        return self._model.requests


def decide(messages: list[JsonMessage]) -> Said:
    """What the model does next: the newest question is looked up, and then answered."""
    asked = [found for each in messages if (found := _SHIP.search(text(each)))]
    at = max(at for at, each in enumerate(messages) if _SHIP.search(text(each)))
    results = [text(each) for each in messages[at:] if each["role"] == "tool"]
    if results:
        return Said(f"It lies at {results[0][:40]}, pay by noon.")
    ship = asked[-1][1]
    return Said(calls=(call("find_ship", ship), call("find_owner", ship)))


def call(name: str, ship: str) -> tuple[str, str, dict[str, Any]]:
    """One call of a tool."""
    return f"call-{name}-{ship}", name, {"ship": ship}


def text(message: JsonMessage) -> str:
    """What a message says."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text") or "") for part in parts)


def find_ship(ship: str) -> str:
    """Where a ship lies."""
    return lying(ship)


def find_owner(ship: str) -> dict[str, Any]:
    """Whose it is."""
    return {"ship": ship, "owner": f"Company {int(ship[1:]) % 7}", "since": 1907}


def model(endpoint: ClerkEndpoint) -> OpenAILlm:
    """ADK's own connector to OpenAI's client, at this endpoint; the fixture closes it."""
    endpoint.clients.append(AsyncOpenAI(api_key="k", base_url=endpoint.base_url))
    return OpenAILlm(model="gpt-4o", client=endpoint.clients[-1])


def clerk(endpoint: ClerkEndpoint, **more: Any) -> LlmAgent:
    """The agent."""
    given = {"name": "clerk", "tools": [find_ship, find_owner], "instruction": PROMPT, **more}
    return LlmAgent(model=model(endpoint), **given)


class Office:
    """A process with a runner."""

    def __init__(
        self, agent: BaseAgent, service: TurnmillSessionService, *before: BasePlugin
    ) -> None:
        self.service = service
        self.plugin = ContextPlugin(service)
        app = App(name=APP, root_agent=agent, plugins=[*before, self.plugin])
        self.runner = Runner(app=app, session_service=service, auto_create_session=True)

    async def ask(self, question: str, config: RunConfig | None = None) -> list[Event]:
        """The events of one run."""
        message = types.Content(role="user", parts=[types.Part(text=question)])
        run = self.runner.run_async(
            user_id=USER, session_id=SESSION, new_message=message, run_config=config
        )
        return [event async for event in run]

    @property
    def name(self) -> str:
        """The session's name in turnmill."""
        return self.service.session_name(APP, USER, SESSION)

    async def events(self) -> list[Event]:
        """All that is kept."""
        session = await self.service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        assert session is not None
        return session.events


def assert_legal(shown: Sequence[Sequence[JsonMessage]], hard: int) -> None:
    """Each request is one that the API takes, and within the limit."""
    counter = counter_for()
    for messages in shown:
        assert violations(messages) == []
        assert count_request(counter, messages) <= hard
