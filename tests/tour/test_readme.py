"""The README's example, run as it stands against a model endpoint that only echoes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tour.echo_model import echo_model
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def model_url() -> Iterator[str]:
    with echo_model() as url:
        yield f"{url}/v1"


def test_the_example_of_the_readme_works_as_printed(
    redis_server: EmbeddedRedis, model_url: str
) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    example = found[1].replace("redis://localhost:6379/0", redis_server.url)
    with ContextClient(redis_server.url, broker=SilentWaker()) as client:
        client.forget("agent-7")

    # As a user runs it: measuring coverage slows imports enough to upset openai's lazy ones.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}

    done = subprocess.run(
        [sys.executable, "-c", example],
        input="first\nsecond\n\n",
        env={**environment, "OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "I was sent 2 messages" in done.stdout
    assert "I was sent 4 messages" in done.stdout
    with ContextClient(redis_server.url, broker=SilentWaker()) as client:
        roles = [message["role"] for message in client.read("agent-7").messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_the_example_of_the_readme_has_twelve_lines() -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)

    assert found is not None
    assert len([line for line in found[1].splitlines() if line]) <= 12


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
