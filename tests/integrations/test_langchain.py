"""A LangChain agent whose model sees a session's context; its own OpenAI client, over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from tests.integrations.langchain_agents import (
    SMALL,
    Seen,
    agent_of,
    asking,
    assert_fits,
    clerk,
    question,
    texts,
    thread,
)
from tests.integrations.scripted import ScriptedModel, serving
from tests.specifications.agents import settled
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.integrations.langchain import ContextMiddleware
from turnmill.integrations.shared import Client


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        yield running


def test_a_long_chat_with_tools_stays_within_its_limit_and_the_state_stays_complete(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents, policy=SMALL)
    agent = agent_of(model, middleware)

    for number in range(1, 25):
        state = agent.invoke(asking(number), thread("ann"))
        if number % 4 == 0:
            settled(agents, "ann")

    assert middleware.counts.failed == 0
    assert middleware.counts.branched == 0
    assert len(model.requests) == 48
    assert_fits(agents, "ann", model)
    assert all(question(at // 2 + 1) in texts(shown) for at, shown in enumerate(model.requests))
    assert question(1) not in [message["content"] for message in model.requests[-1]]
    assert agents.info("ann").version >= 2
    asked = [m.content for m in state["messages"] if isinstance(m, HumanMessage)]
    assert asked == [question(number) for number in range(1, 25)]
    assert middleware.counts.pushed == agents.info("ann").last_seq == len(state["messages"]) == 120


async def test_an_awaited_and_streamed_chat_stays_within_its_limit(
    agents: ContextClient, async_agents: Client, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(async_agents, "ben", policy=SMALL)
    agent = agent_of(model, middleware)

    said = ""
    for number in range(1, 13):
        async for chunk, _ in agent.astream(asking(number), thread("x"), stream_mode="messages"):
            said += str(chunk.content) if isinstance(chunk, AIMessage) else ""
        if number % 4 == 0:
            await asyncio.to_thread(settled, agents, "ben")

    assert said.count("Anna pays by noon.") == 12
    assert (middleware.counts.failed, middleware.counts.curated) == (0, 24)
    assert_fits(agents, "ben", model)
    assert agents.info("ben").version >= 1


async def test_a_synchronous_client_serves_an_awaited_agent(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)

    await agent_of(model, middleware).ainvoke(asking(1), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.pushed) == (0, 5)


async def test_a_client_that_must_be_awaited_is_refused_by_an_agent_that_is_not(
    async_agents: Client, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = ContextMiddleware(async_agents)

    agent_of(model, middleware).invoke(asking(1), thread("ann"))

    assert middleware.counts.failed == 2
    assert "messages left as they are: TypeError" in caplog.messages


def test_what_is_word_for_word_is_the_very_message_it_was(
    agents: ContextClient, model: ScriptedModel
) -> None:
    shown: list[AnyMessage] = []
    agent = agent_of(model, ContextMiddleware(agents, policy=SMALL), Seen(shown))
    for number in range(1, 13):
        state = agent.invoke(asking(number), thread("ann"))
        settled(agents, "ann")

    own = {id(message) for message in state["messages"]}
    assert [id(message) in own for message in shown[-3:]] == [True] * 3
    assert not all(id(message) in own for message in shown)


def test_calls_that_a_person_edits_and_rejects_are_told_with_their_results(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)
    approval = HumanInTheLoopMiddleware({"find_ship": True})
    agent = agent_of(model, middleware, approval)
    agent.invoke(asking(1), thread("ann"))
    edited = {"name": "find_ship", "args": {"ship": "S5"}}
    decisions = [{"type": "edit", "edited_action": edited}, {"type": "reject", "message": "no"}]

    agent.invoke(Command(resume={"decisions": decisions}), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 0)
    context = agents.read("ann").messages
    assert violations(context) == []
    results = [message["content"] for message in context if message["role"] == "tool"]
    assert results[0].startswith("User rejected the tool call")
    assert "pier 5 with S5" in results[1]


def test_while_redis_is_down_the_model_gets_all_messages(
    tmp_path: Path, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    server = EmbeddedRedis(tmp_path, durable=False)
    with server:
        url = server.url
    with ContextClient(url, timeout_s=0.2) as client:
        middleware = ContextMiddleware(client, policy=SMALL)
        with caplog.at_level(logging.WARNING):
            state = agent_of(model, middleware).invoke(asking(1), thread("ann"))

    assert state["messages"][-1].content.startswith("It lies at pier")
    assert middleware.counts.failed == 2
    assert question(1) in texts(model.requests[0])
    ours = {r.getMessage() for r in caplog.records if r.name.startswith("turnmill.integrations")}
    assert ours == {"messages left as they are: StoreUnavailable"}


def test_a_tool_message_keeps_its_artifact_for_the_next_request(
    agents: ContextClient, model: ScriptedModel
) -> None:
    shown: list[AnyMessage] = []
    agent = agent_of(model, ContextMiddleware(agents), Seen(shown))
    history = [
        HumanMessage("Look"),
        AIMessage("", tool_calls=[{"id": "c1", "name": "find_ship", "args": {"ship": "S1"}}]),
        ToolMessage("pier 1", tool_call_id="c1", artifact={"raw": b"1"}),
    ]

    agent.invoke({"messages": history}, thread("ann"))

    (result,) = [message for message in shown if isinstance(message, ToolMessage)]
    assert result.artifact == {"raw": b"1"}
