"""LangChain's example and that of the documents, run as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_openai")

from tests.integrations.scripted import Said, ScriptedModel, serving
from turnmill.embedded_redis import EmbeddedRedis

ROOT = Path(__file__).parents[2]


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


def run(code: list[str], said: str, model: ScriptedModel, **env: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, *code],
        input=said,
        env={**environment, "OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none", **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_answers_from_the_sessions_context(
    store: EmbeddedRedis, model: ScriptedModel
) -> None:
    example = str(ROOT / "examples" / "langchain_agent.py")

    output = run([example], "Where is the ship Emma?\nThanks.\n\n", model, REDIS_URL=store.url)

    assert "I was told: Emma lies at pier 5." in output
    assert "I was told: Thanks." in output
    assert "3 requests got the context, 0 did not" in output
    assert len(model.requests[-1]) == 6


def test_the_example_of_the_documents_works_as_printed(
    store: EmbeddedRedis, model: ScriptedModel
) -> None:
    section = (ROOT / "docs" / "integrations.md").read_text().partition("\n## LangChain")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    code = found[1].replace("redis://localhost:6379/0", store.url)

    output = run(["-c", code], "Hello\nThanks\n\n", model)

    assert "I was told: Thanks" in output
    assert [message["role"] for message in model.requests[-1]] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip
