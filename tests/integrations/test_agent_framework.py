"""agent-framework's agents with their history in a session; their own client, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

pytest.importorskip("agent_framework")

import sys

from agent_framework import Agent, AgentSession, Content, MCPStdioTool, Message, tool
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from tests.integrations import harbour_server
from tests.integrations.scripted import PROMPT, Said, ScriptedModel, huge, lying, question, serving
from turnmill import AsyncContextClient, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.integrations.agent_framework import TurnmillHistoryProvider, from_chat, to_chat
from turnmill_worker.tokens import count_request, counter_for

JsonMessage = dict[str, Any]

SMALL = Policy(max_tokens=1600, reserved_tokens=300, quality_threshold=0.0)


@tool(approval_mode="never_require")
def find_ship(ship: Annotated[str, "its name"]) -> str:
    """Where a ship lies."""
    return lying(ship)


@tool(approval_mode="always_require")
def pay(ship: Annotated[str, "its name"]) -> str:
    """Pay for a ship."""
    return f"{ship} is paid"


def clerk(messages: list[JsonMessage]) -> Said:
    """Looks every ship up before it answers."""
    newest = messages[-1]
    if newest["role"] == "user":
        ship = newest["content"].split()[-1].rstrip("?")
        name = "pay" if newest["content"].startswith("Pay") else "find_ship"
        return Said(calls=((f"call-{ship}", name, {"ship": ship}),))
    return Said(f"It lies at {newest['content'][:40]}, Anna pays by noon.")


@asynccontextmanager
async def clerk_of(model: ScriptedModel, provider: TurnmillHistoryProvider) -> AsyncIterator[Agent]:
    """The framework's agent, whose client is closed in the end."""
    async with AsyncOpenAI(base_url=model.base_url, api_key="none", max_retries=0) as client:
        yield Agent(
            client=OpenAIChatCompletionClient(model="gpt-4o", async_client=client),
            instructions=PROMPT,
            tools=[find_ship, pay],
            context_providers=[provider],
            require_per_service_call_history_persistence=True,
        )


def texts(request: list[JsonMessage]) -> list[str]:
    return [str(message.get("content")) for message in request]


async def test_an_approval_that_is_asked_for_goes_on_in_another_process(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    with serving(clerk) as model:
        session = AgentSession(session_id="ann")
        async with clerk_of(model, TurnmillHistoryProvider(async_agents)) as agent:
            asked = (await agent.run("Pay S1", session=session)).user_input_requests
        assert len(asked) == 1

        again = AgentSession.from_dict(session.to_dict())
        answer = Message("user", [asked[0].to_function_approval_response(approved=True)])
        async with clerk_of(model, TurnmillHistoryProvider(async_agents)) as agent:
            done = await agent.run(answer, session=again)

    assert "S1 is paid" in done.text
    assert all(violations(request) == [] for request in model.requests)
    assert violations([_bare(message) for message in agents.read("ann").messages]) == []


async def test_names_in_words_and_images_of_an_agent_come_back(
    async_agents: AsyncContextClient,
) -> None:
    provider = TurnmillHistoryProvider(async_agents)
    image = Content.from_uri("https://example.org/a.png", media_type="image/png")
    said = Message("assistant", ["See.", image], author_name="Harbour Clerk")

    await provider.save_messages("ann", [Message("user", ["Draw."]), said])

    [_, found] = await provider.get_messages("ann")
    assert found.author_name == "Harbour Clerk"
    assert [content.type for content in found.contents] == ["text", "uri"]


def _bare(message: JsonMessage) -> JsonMessage:
    return {name: value for name, value in message.items() if name != "native"}


@pytest.mark.parametrize(
    "contents",
    [
        [Content.from_text_reasoning(text="Hm.", protected_data='"x"'), "Yes."],
        [
            "Yes.",
            Content.from_function_call("c1", "pay", arguments={"ship": "S1"}, id="first"),
            Content.from_function_call("c2", "pay", arguments='{ "ship": "S2" }'),
        ],
        [
            Content.from_function_result("c1", result="S1 is paid", id="first"),
            Content.from_function_result(
                "c2", result=[Content.from_text("See."), Content.from_data(b"123", "image/png")]
            ),
        ],
        ["See.", Content.from_uri("https://example.org/a.png", media_type="image/png")],
        [Content.from_hosted_file("file-1")],
        [],
    ],
    ids=["reasoning", "calls", "results", "images", "hosted", "empty"],
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_message_comes_back_as_it_was(role: str, contents: list[Any]) -> None:
    message = Message(role, contents, author_name="Ann", message_id="m1")

    again = from_chat(to_chat(message))

    assert [each.to_dict() for each in again] == [message.to_dict()]


def test_what_a_compaction_shortened_is_not_put_back() -> None:
    called = Content.from_function_result("c1", result="crate of herring, " * 50, id="first")
    [told] = to_chat(Message("tool", [called]))

    [made] = from_chat([{**told, "content": "[shortened]"}])

    assert made.contents[0].result == "[shortened]"
    assert made.contents[0].id is None


async def test_tools_of_connected_mcp_servers_count(store: EmbeddedRedis) -> None:
    harbour = MCPStdioTool("harbour", sys.executable, args=[harbour_server.__file__])
    with serving(lambda _: Said("Fine.")) as model:
        async with (
            AsyncContextClient(store.url) as client,
            AsyncOpenAI(base_url=model.base_url, api_key="none") as openai,
            Agent(
                client=OpenAIChatCompletionClient(model="gpt-4o", async_client=openai),
                tools=[harbour],
                context_providers=[TurnmillHistoryProvider(client)],
            ) as agent,
        ):
            await agent.run("Hello", session=AgentSession(session_id="ann"))
            assert (await client.info("ann")).tools_tokens > 20


async def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    agents: ContextClient, async_agents: AsyncContextClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = TurnmillHistoryProvider(async_agents, policy=SMALL)
    session = AgentSession(session_id="ann")
    with serving(clerk) as model:
        async with clerk_of(model, provider) as agent:
            with monkeypatch.context() as patched:
                patched.setattr("tests.integrations.test_agent_framework.lying", huge)
                await agent.run(question(1), session=session)
            await agent.run(question(2), session=session)

    assert provider.counts.failed == 0
    assert agents.info("ann").last_seq == 8
    assert len(model.requests) == 4
    assert "characters removed" in "".join(texts(model.requests[1]))
    for request in model.requests:
        assert violations(request) == []
        assert count_request(counter_for(), request) <= SMALL.max_tokens
    assert question(2) in "".join(texts(model.requests[-1]))
