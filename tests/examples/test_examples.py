"""Each example, run as its first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(name: str) -> str:
    # As a user runs it: what measures coverage stays with the tests.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=110)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.communicate()
    assert process.returncode == 0, errors
    return output


def test_there_is_a_test_for_every_example() -> None:
    # The cipher's are in tests/security/test_encryption.py, the agents' in tests/integrations.
    here = [
        "aes_gcm_cipher.py",
        "agent_framework_agent.py",
        "model_summaries.py",
        "strands_agent.py",
    ]
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == here


@pytest.mark.timeout(180)
def test_a_session_stays_readable_when_its_model_goes_away() -> None:
    output = _run("model_summaries.py")

    assert "Summary 1 is by gpt-5-mini, $0.0" in output
    assert "is by extractive, $0.0000" in output
    assert output.index("gpt-5-mini") < output.index("by extractive")
    assert "Its last order is there: True" in output
