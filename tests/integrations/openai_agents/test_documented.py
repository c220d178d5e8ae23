"""The example and the page's program run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.openai_agents.scripted import ScriptedResponses, call, message
from turnmill.embedded_redis import EmbeddedRedis

ROOT = Path(__file__).parents[3]
ANYWHERE = "redis://localhost:6379/0"


@pytest.fixture
def environment(endpoint: ScriptedResponses, store: EmbeddedRedis) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    asking = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "none"}
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
    return {**own, **asking, **quiet, "TURNMILL_REDIS_URL": store.url}


def answers(environment: dict[str, str], lines: str, *program: str) -> str:
    done = subprocess.run(
        [sys.executable, *program],
        env=environment,
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_asks_before_money_goes_and_remembers(
    endpoint: ScriptedResponses, environment: dict[str, str]
) -> None:
    program = str(ROOT / "examples" / "openai_agents_agent.py")
    endpoint.outputs += [
        [call("find_order", 1, number="W7")],
        [message("It is due on Thursday.")],
        [call("refund", 2, number="W7")],
        [message("You get your money back.", 2)],
        [message("It was W7.", 3)],
    ]

    first = answers(environment, "Where is W7?\nI want a refund.\ny\n\n", program)
    second = answers(environment, "Which order was it?\n\n", program)

    assert "It is due on Thursday." in first
    assert 'refund {"number": "W7"}?' in first
    assert "You get your money back." in first
    assert "It was W7." in second
    assert endpoint.inputs[-1][0]["content"] == "Where is W7?"
    assert any(item.get("output") == "Order W7 is refunded." for item in endpoint.inputs[-1])


def test_the_pages_program_runs(
    endpoint: ScriptedResponses, environment: dict[str, str], store: EmbeddedRedis
) -> None:
    page = (ROOT / "docs" / "integrations.md").read_text()
    section = page[page.index("## openai-agents") :]
    block = re.search(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    assert ANYWHERE in block[1]
    endpoint.outputs += [[message("Hello.")], [message("Hello again.", 2)]]

    said = answers(environment, "Hi\nHi\n\n", "-c", block[1].replace(ANYWHERE, store.url))

    assert "Hello again." in said
    assert [len(items) for items in endpoint.inputs] == [1, 3]
