"""LangChain's example and that of the documents, run as a user runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_openai")

from langchain_core.messages import HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory

from tests.integrations.langchain_agents import chat_model
from tests.integrations.running import EXAMPLES, block, run
from tests.integrations.scripted import Said, ScriptedModel, serving
from turnmill import ContextClient
from turnmill.embedded_redis import EmbeddedRedis
from turnmill.integrations.langchain import ContextChatMessageHistory


def clerk(messages: list[dict[str, Any]]) -> Said:
    """Looks a ship up where it can."""
    newest = messages[-1]
    if newest["role"] == "user" and "ship" in newest["content"]:
        return Said("", (("call-1", "find_ship", {"name": "Emma"}),))
    return Said(f"I was told: {newest['content']}")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        yield running


def test_the_example_answers_from_the_sessions_context(
    store: EmbeddedRedis, model: ScriptedModel
) -> None:
    example = str(EXAMPLES / "langchain_agent.py")
    said = "Where is the ship Emma?\nThanks.\n\n"

    output = run(example, said=said, model=model.base_url, redis=store.url)

    assert "I was told: Emma lies at pier 5." in output
    assert "I was told: Thanks." in output
    assert "3 requests got the context, 0 did not" in output
    assert len(model.requests[-1]) == 6


def test_the_example_of_the_documents_works_as_printed(
    store: EmbeddedRedis, model: ScriptedModel
) -> None:
    code = block("LangChain and LangGraph", store.url)

    output = run("-c", code, said="Hello\nThanks\n\n", model=model.base_url, redis="")

    assert "I was told: Thanks" in output
    assert [message["role"] for message in model.requests[-1]] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip


# LangChain deprecates it in favour of agents; chains that have it want a history all the same.
@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_a_chain_goes_on_from_the_chat_history(client: ContextClient, model: ScriptedModel) -> None:
    def history(session_id: str) -> ContextChatMessageHistory:
        return ContextChatMessageHistory(client, session_id)

    chain = RunnableWithMessageHistory(chat_model(model), history)
    for text in ("Hello", "Thanks"):
        said = chain.invoke([HumanMessage(text)], {"configurable": {"session_id": "ann"}})

    assert said.content == "I was told: Thanks"
    assert [message["content"] for message in model.requests[-1]] == [
        "Hello", "I was told: Hello", "Thanks",
    ]  # fmt: skip
    assert client.info("ann").last_seq == 4
