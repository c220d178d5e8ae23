"""What a newcomer runs of each framework: its example, and the code of the page.

openai-agents' are beside its other tests; pydantic-ai's page runs in tests/tour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integrations.running import EXAMPLES, block, run
from tests.integrations.scripted import Said, serving
from turnmill.connection.embedded import EmbeddedRedis

TALK = "Where is the ship Emma?\nThanks.\n\n"
# LlamaIndex's own class wants an older `openai` than the workers: it is run by hand.
LLAMA_INDEX = """
import sys, types
from tests.integrations.llama_index_agents import StreamedChat
sys.modules["llama_index.llms.openai"] = types.SimpleNamespace(OpenAI=StreamedChat)
"""


def words(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else " ".join(part["text"] for part in content)


def clerk(argument: str) -> Callable[[list[dict[str, Any]]], Said]:
    """Looks a ship up by the argument of the example's tool, and says what it was told."""

    def script(messages: list[dict[str, Any]]) -> Said:
        newest = messages[-1]
        if newest["role"] == "user" and argument and "ship" in words(newest):
            return Said("", (("call-1", "find_ship", {argument: "Emma"}),))
        return Said(f"I was told: {words(newest)}")

    return script


@pytest.mark.parametrize(
    ("name", "of", "argument", "last"),
    [
        ("agent_framework_agent.py", "", "ship", "6 turns in the session"),
        ("google_adk_agent.py", "", "ship", "6 turns in the session, 0 requests without its"),
        ("langchain_agent.py", "openai:", "name", "3 requests got the context, 0 did not"),
        ("llama_index_agent.py", "", "name", "The session holds 6 messages"),
        # The last answer is pushed with the next question.
        ("pydantic_ai_agent.py", "openai-chat:", "name", "5 turns in the session"),
        ("strands_agent.py", "", "ship", "6 turns in the session"),
    ],
)
def test_an_example_answers_from_its_sessions_context(
    name: str, of: str, argument: str, last: str, store: EmbeddedRedis
) -> None:
    with serving(clerk(argument)) as model:
        output = run(
            str(EXAMPLES / name),
            said=TALK,
            model=model.base_url,
            redis=store.url,
            MODEL=f"{of}gpt-5-nano",
        )

    told = [line for line in output.splitlines() if "I was told: " in line]
    assert "Emma lies at pier" in told[0]
    assert "Thanks." in told[1]
    assert last in output
    assert model.asked == {"gpt-5-nano"}
    shown = [message["role"] for message in model.requests[-1] if message["role"] != "system"]
    assert shown == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize(
    ("heading", "before"),
    [
        ("agent-framework", ""),
        ("google-adk", ""),
        ("LangChain and LangGraph", ""),
        ("LlamaIndex", LLAMA_INDEX),
        ("Strands", ""),
    ],
)
def test_the_example_of_the_page_works_as_printed(
    heading: str, before: str, store: EmbeddedRedis
) -> None:
    code = before + block(heading, store.url)
    with serving(clerk("")) as model:
        output = run("-c", code, said="Hello\nThanks\n\n", model=model.base_url, redis="")

    assert "I was told: Hello" in output
    assert "I was told: Thanks" in output
    shown = [message["role"] for message in model.requests[-1] if message["role"] != "system"]
    assert shown == ["user", "assistant", "user"]
