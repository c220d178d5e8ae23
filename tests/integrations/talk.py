"""What a newcomer runs: the examples, and the code of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "printed", "talk"]

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


def printed(heading: str, redis: str) -> str:
    """The first Python code under a heading of the page on integrations."""
    page = (ROOT / "docs" / "integrations.md").read_text()
    found = re.search(r"```python\n(.*?)```", page[page.index(f"## {heading}") :], re.DOTALL)
    assert found is not None
    return found[1].replace("redis://localhost:6379/0", redis)
