"""Each example, run as its first lines say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tour.echo_model import echo_model
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = Path(__file__).parents[1]


def _run(name: str, said: str = "", **env: str) -> str:
    # As a user runs it: what measures coverage stays with the tests.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name)],
        env={**environment, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(said, timeout=280)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.communicate()
    assert process.returncode == 0, errors
    return output


def test_there_is_a_test_for_every_example() -> None:
    # The cipher's are in tests/security, the agents' of frameworks in tests/integrations.
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests] == []


def test_a_session_stays_readable_when_its_model_goes_away() -> None:
    output = _run("model_summaries.py")

    assert "Summary 1 is by gpt-5-mini, $0.0" in output
    assert "is by extractive, $0.0000" in output
    assert output.index("gpt-5-mini") < output.index("by extractive")
    assert "Its last order is there: True" in output


@pytest.mark.parametrize(
    ("name", "session"), [("anthropic_sdk.py", "anthropic-chat"), ("openai_sdk.py", "openai-chat")]
)
def test_a_chat_with_a_bare_sdk_goes_on_where_it_was(
    name: str, session: str, redis_server: EmbeddedRedis
) -> None:
    with echo_model() as url:
        given = {
            "TURNMILL_REDIS_URL": redis_server.url,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "none",
        }
        first = _run(name, "Hello.\nThanks.\n\n", **given)
        again = _run(name, "And now?\n", **given)
    with ContextClient(redis_server.url) as client:
        told = client.read(session)
        client.forget(session)

    sent = [int(number) for number in re.findall(r"I was sent (\d+) messages", first + again)]
    assert [more - sent[0] for more in sent] == [0, 2, 4]
    assert told.last_seq == 6
