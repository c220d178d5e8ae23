"""LlamaIndex's example and that of the documents, run as a user runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from tests.integrations.running import EXAMPLES, block, run
from tests.integrations.scripted import Said, ScriptedModel, serving
from turnmill.embedded_redis import EmbeddedRedis

EXAMPLE = EXAMPLES / "llama_index_agent.py"


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


def test_the_example_answers_from_the_session(store: EmbeddedRedis, model: ScriptedModel) -> None:
    said = "Where is the ship Emma?\nThanks.\n\n"

    output = run(str(EXAMPLE), said=said, model=model.base_url, redis=store.url)

    assert "I was told: Emma lies at pier 5." in output
    assert "I was told: Thanks." in output
    assert "The session holds 6 messages" in output
    assert len(model.requests[-1]) == 6


def test_the_example_of_the_documents_works_as_printed(
    store: EmbeddedRedis, model: ScriptedModel
) -> None:
    code = block("LlamaIndex", store.url)
    chosen = f"""
import runpy
from llama_index.core import Settings
Settings.llm = runpy.run_path({str(EXAMPLE)!r})["Chat"]()
"""

    output = run("-c", chosen + code, said="Hello\nThanks\n\n", model=model.base_url, redis="")

    assert "I was told: Thanks" in output
    assert [message["role"] for message in model.requests[-1]] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip
