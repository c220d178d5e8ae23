"""What a newcomer runs: the examples, and the code of the page on integrations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["EXAMPLES", "block", "run"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def block(heading: str, redis: str) -> str:
    """The first Python code under a heading of the page that begins so, for this Redis."""
    page = (ROOT / "docs" / "integrations.md").read_text()
    _, _, section = page.partition(f"\n## {heading}")
    found = re.search(
        r"^```python\n(.*?)^```", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1].replace("redis://localhost:6379/0", redis)


def run(*command: str, said: str, model: str, redis: str, **env: str) -> str:
    """What it prints, told these lines; its model and its Redis are at these addresses."""
    # As a user runs it: what measures coverage stays with the tests.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    given = {"TURNMILL_REDIS_URL": redis, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "none"}
    done = subprocess.run(
        [sys.executable, *command],
        input=said,
        env={**environment, **given, **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
