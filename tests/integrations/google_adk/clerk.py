"""A harbour clerk: an agent of ADK's, its tools, and a model endpoint that calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

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

from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations
from turnmill.integrations.google_adk import ContextPlugin, TurnmillSessionService
from turnmill.testing import FakeEndpoint
from turnmill_worker.tokens import count_request, counter_for

APP, USER, SESSION = "harbour", "anna@example.org", "s 1"
PROMPT = "You are a harbour clerk."
_SHIP = re.compile(r"Question \d+: where is ship (S\d+)\?")


class ClerkEndpoint(FakeEndpoint):
    """Answers a question about a ship by two calls at once, and results by a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[AsyncOpenAI] = []
        self.decide: Callable[[list[JsonMessage]], JsonMessage] = decide

    def answer(self, method: str, path: str, body: dict[str, Any], key: str) -> Any:
        """The outcome, as an answer or as a stream of pieces."""
        outcome = super().answer(method, path, body, key)
        if outcome.status != 200:
            return outcome
        message = self.decide(body["messages"])
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if body.get("stream"):
            return replace(outcome, body=_streamed(message, finish))
        found = json.loads(outcome.body)
        found["choices"][0] |= {"message": message, "finish_reason": finish}
        return replace(outcome, body=json.dumps(found).encode())

    @property
    def shown(self) -> list[list[JsonMessage]]:
        """The messages of each request."""
        return [request.body["messages"] for request in self.requests]


def decide(messages: list[JsonMessage]) -> JsonMessage:
    """What the model does next: the newest question is looked up, and then answered."""
    asked = [found for each in messages if (found := _SHIP.search(text(each)))]
    at = max(at for at, each in enumerate(messages) if _SHIP.search(text(each)))
    results = [text(each) for each in messages[at:] if each["role"] == "tool"]
    if results:
        return {"role": "assistant", "content": f"It lies at {results[0][:40]}, pay by noon."}
    ship = asked[-1][1]
    calls = [call("find_ship", ship, ship), call("find_owner", ship, ship)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def call(name: str, ship: str, word: str) -> JsonMessage:
    """One call of a tool."""
    function: JsonMessage = {"name": name, "arguments": json.dumps({"ship": ship})}
    return {"id": f"call-{name}-{word}", "type": "function", "function": function}


def text(message: JsonMessage) -> str:
    """What a message says."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text") or "") for part in parts)


def _streamed(message: JsonMessage, finish: str) -> bytes:
    words = (message.get("content") or "").split(" ")
    deltas: list[JsonMessage] = [{"content": f"{word} "} for word in words if word]
    calls = [{"index": at, **each} for at, each in enumerate(message.get("tool_calls") or ())]
    deltas += [{"tool_calls": calls}] if calls else []
    pieces: list[JsonMessage] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    pieces.append({"delta": {}, "finish_reason": finish})
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    chunks = [json.dumps({**head, "choices": [{"index": 0, **piece}]}) for piece in pieces]
    return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()


def find_ship(ship: str) -> str:
    """Where a ship lies."""
    return f"pier {int(ship[1:]) % 9} with {ship}: " + "crate of herring, " * 15


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


def question(number: int) -> str:
    """One about a ship."""
    return f"Question {number}: where is ship S{number * 71}?"


def assert_legal(shown: Sequence[Sequence[JsonMessage]], hard: int) -> None:
    """Each request is one that the API takes, and within the limit."""
    counter = counter_for()
    for messages in shown:
        assert violations(messages) == []
        assert count_request(counter, messages) <= hard
