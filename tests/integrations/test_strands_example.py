"""What a newcomer runs of Strands: the example, and the code of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("strands")

from tests.integrations.scripted import serving
from tests.integrations.strands_agents import clerk
from turnmill.embedded_redis import EmbeddedRedis

ROOT = Path(__file__).parents[2]


def talk(*command: str, redis: str, model: str) -> str:
    """What it prints after two questions."""
    # As a user runs it: what measures coverage stays with the tests.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, *command],
        input="Where is S71?\nWhere is S142?\n\n",
        env={
            **environment,
            "TURNMILL_REDIS_URL": redis,
            "OPENAI_BASE_URL": model,
            "OPENAI_API_KEY": "none",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_answers_and_its_session_has_all_turns(store: EmbeddedRedis) -> None:
    with serving(clerk) as model:
        said = talk(
            str(ROOT / "examples" / "strands_agent.py"), redis=store.url, model=model.base_url
        )

    assert said.count("It lies at") == 2
    assert "8 turns in the session" in said


def test_the_example_of_the_page_works_as_printed(store: EmbeddedRedis) -> None:
    page = (ROOT / "docs" / "integrations.md").read_text()
    section = page[page.index("## Strands") :]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    code = found[1].replace("redis://localhost:6379/0", store.url)
    with serving(clerk) as model:
        said = talk("-c", code, redis=store.url, model=model.base_url)

    assert said.count("It lies at") == 2
