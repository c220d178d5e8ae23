"""What holds of agents in every framework; the model is scripted, behind real HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.clerks import Clerk, Process
from tests.integrations.scripted import (
    PROMPT,
    Said,
    ScriptedModel,
    clerk,
    question,
    serving,
    text,
    texts,
)
from tests.specifications.agents import settled
from turnmill import AsyncContextClient, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill_worker.tokens import count_request, counter_for

PACKAGES = {
    "agent_framework": "agent_framework",
    "google_adk": "google.adk",
    "langchain": "langchain_openai",
    "llama_index": "llama_index.core",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
SMALL = Policy(max_tokens=2000, reserved_tokens=500, quality_threshold=0.0)
"""Room is kept for what frameworks add themselves: the system prompt, the steps of a run."""

pytestmark = pytest.mark.filterwarnings(
    # LlamaIndex looks at all attributes of an agent, those that pydantic deprecates too.
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
)


@pytest.fixture(params=PACKAGES)
def framework(request: pytest.FixtureRequest) -> Any:
    """How the framework's agent is opened in a process."""
    pytest.importorskip(PACKAGES[request.param])
    return import_module(f"tests.integrations.clerks.{request.param}").opened


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield running


@asynccontextmanager
async def process(opened: Any, url: str, model: ScriptedModel, **more: Any) -> AsyncIterator[Clerk]:
    """The agent in a process of its own, as far as turnmill can tell."""
    given = {"namespace": "ns", "kept": {}, "broker": SilentWaker(), **more}
    async with AsyncExitStack() as stack:
        yield await opened(Process(url=url, model=model, open=stack, **given))


def asked(messages: list[dict[str, Any]]) -> list[str]:
    """The questions among the messages."""
    users = [text(message) for message in messages if message["role"] == "user"]
    return [said for said in users if said.startswith("Question")]


async def test_a_long_chat_with_tools_stays_within_its_limit(
    framework: Any, agents: ContextClient, store: EmbeddedRedis, model: ScriptedModel
) -> None:
    given = {"namespace": agents.namespace, "policy": SMALL, "broker": None}
    async with process(framework, store.url, model, **given) as agent:
        for number in range(1, 25):
            await agent.ask(question(number))
            if number % 6 == 0:
                await asyncio.to_thread(settled, agents, agent.session)

        assert agent.failed() == 0
    info = agents.info(agent.session)
    assert info.compactions >= 2
    assert len(model.requests) == 48
    for at, shown in enumerate(model.requests):
        assert violations(shown) == []
        assert count_request(counter_for(), shown) + info.tools_tokens <= info.policy.max_tokens
        assert text(shown[0]).startswith(PROMPT)
        assert question(at // 2 + 1) in texts(shown)
    assert question(1) not in [text(message) for message in model.requests[-1][2:]]
    turns = agents.trajectory(agent.session).turns
    told = asked([message for turn in turns for message in turn.messages])
    assert told == [question(number) for number in range(1, 25)]


async def test_a_streamed_answer_comes_in_pieces_and_is_told_once(
    framework: Any, redis_server: EmbeddedRedis, namespace: str, model: ScriptedModel
) -> None:
    model.script = lambda _: Said("It lies at pier one.")
    async with process(framework, redis_server.url, model, namespace=namespace) as agent:
        pieces = await agent.pieces("Where?")
        await agent.ask("Thanks")

    assert len(pieces) > 2
    said = [text(message) for message in model.requests[-1] if message["role"] != "system"]
    assert said == ["Where?", "It lies at pier one.", "Thanks"]


async def test_processes_take_turns_in_one_session(
    framework: Any, redis_server: EmbeddedRedis, namespace: str, model: ScriptedModel
) -> None:
    given: dict[str, Any] = {"namespace": namespace, "kept": {}}
    for number in range(1, 5):
        async with process(framework, redis_server.url, model, **given) as agent:
            await agent.ask(question(number))
            assert agent.failed() == 0

    assert all(violations(shown) == [] for shown in model.requests)
    async with AsyncContextClient(redis_server.url, namespace=namespace) as client:
        context = await client.read(agent.session)
    for messages in (context.messages_for("chat"), model.requests[-1]):
        assert asked(messages) == [question(number) for number in range(1, 5)]


async def test_while_redis_is_away_the_agent_goes_on_says_so_and_tells_it_later(
    framework: Any, tmp_path: Path, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    if framework.__module__.endswith("google_adk"):
        pytest.skip("ADK keeps events in the session alone: its own tests say what it is told")
    server = EmbeddedRedis(tmp_path)
    with server:
        async with process(framework, server.url, model) as agent:
            await agent.ask(question(1))
            server.stop()
            with caplog.at_level(logging.WARNING, logger="turnmill"):
                await agent.ask(question(2))
            assert asked(model.requests[-1]) == [question(1), question(2)]
            assert agent.failed() > 0
            server.start()
            await agent.ask(question(3))
        async with AsyncContextClient(server.url, namespace="ns") as client:
            context = await client.read(agent.session)

    assert asked(context.messages_for("chat")) == [question(number) for number in (1, 2, 3)]
    assert all(violations(shown) == [] for shown in model.requests)
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("turnmill")]
    assert any("StoreUnavailable" in line for line in ours)
    assert not any("Question" in line for line in ours)
