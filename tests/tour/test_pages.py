"""The Python of every page runs from top to bottom, the README's as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tour.documents import PAGES, ROOT, python_blocks
from turnmill import ContextClient, Policy, SilentWaker

pytestmark = pytest.mark.worker

README = ROOT / "README.md"

WITH_THEIR_FRAMEWORK = re.compile(
    r"turnmill\.integrations\.(agent_framework|google_adk|langchain|llama_index|openai_agents|strands)"
)
"""Blocks of these run in tests/integrations, each with a model that its framework can talk to."""

PRELUDE = """
import builtins, os
from openai import OpenAI
from turnmill import ContextClient, Policy
said = iter(["Always answer in German. Where is order #W2378156?", ""])
builtins.input = lambda *_: next(said, "")
model, client = OpenAI(), ContextClient({url!r})
for name in ("agent-7", "agent-8"):
    client.forget(name)
client.push("agent-7", {{"role": "user", "content": "Good morning!"}})
"""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, environment: dict[str, str]
) -> None:
    url = environment["TURNMILL_REDIS_URL"]
    blocks = [
        block.replace("redis://localhost:6379/0", url)
        for block in python_blocks(page)
        if not WITH_THEIR_FRAMEWORK.search(block)
    ]
    code = PRELUDE.format(url=url) + "\n".join(blocks)

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_example_of_the_readme_works_as_printed(environment: dict[str, str]) -> None:
    url = environment["TURNMILL_REDIS_URL"]
    example = python_blocks(README)[0].replace("redis://localhost:6379/0", url)
    with ContextClient(url, broker=SilentWaker()) as client:
        client.forget("agent-7")

    done = subprocess.run(
        [sys.executable, "-c", example],
        input="first\nsecond\n\n",
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "I was sent 2 messages" in done.stdout
    assert "I was sent 4 messages" in done.stdout
    with ContextClient(url, broker=SilentWaker()) as client:
        roles = [message["role"] for message in client.read("agent-7").messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_every_policy_that_the_documents_name_can_be_made() -> None:
    files = [README, *(README.parent / "docs").glob("*.md")]
    found = [
        call
        for file in files
        for call in re.findall(r"\bPolicy(?:\.\w+)?\((?:\w+=[^()…]*)?\)", file.read_text())
    ]

    assert len(found) > 10
    for call in found:
        assert eval(call, {"Policy": Policy}) is not None, call  # noqa: S307 - our own words
