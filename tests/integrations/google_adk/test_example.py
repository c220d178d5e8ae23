"""What a newcomer runs of google-adk: the example, and the code of the page."""

from __future__ import annotations

import pytest

pytest.importorskip("google.adk")

from tests.integrations.running import EXAMPLES, block, run
from tests.integrations.scripted import Said, serving
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.context import JsonMessage


def answer(messages: list[JsonMessage]) -> Said:
    """Looks a ship up where it can, and says so."""
    newest = messages[-1]
    has_tool = any("Where is" in str(message["content"]) for message in messages[-1:])
    if has_tool and newest["role"] == "user" and "harbour" in str(messages[0]["content"]):
        return Said(calls=(("call-1", "find_ship", {"ship": "Emma"}),))
    return Said(f"I was told: {newest['content']}")


def talk(*command: str, redis: str) -> str:
    """What it prints after two questions."""
    with serving(answer) as model:
        said = "Where is Emma?\nThank you\n\n"
        return run(*command, said=said, model=model.base_url, redis=redis)


def test_the_example_goes_on_with_its_session(redis_server: EmbeddedRedis) -> None:
    example = str(EXAMPLES / "google_adk_agent.py")

    said = [talk(example, redis=redis_server.url) for _ in range(2)]

    assert "Emma lies at pier 5." in said[0]
    assert "I was told: Thank you" in said[0]
    assert "6 turns in the session, 0 requests without its context" in said[0]
    assert "12 turns in the session, 0 requests without its context" in said[1]


def test_the_example_of_the_page_works_as_printed(redis_server: EmbeddedRedis) -> None:
    said = talk("-c", block("google-adk", redis_server.url), redis="")

    assert "I was told: Where is Emma?" in said
    assert "I was told: Thank you" in said
