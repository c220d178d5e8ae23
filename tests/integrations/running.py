"""Examples and code of the documents, run as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.integrations.scripted import ScriptedModel

__all__ = ["ROOT", "block", "run"]

ROOT = Path(__file__).parents[2]


def block(title: str) -> str:
    """The Python code of the section with this title in the page on integrations."""
    _, _, section = (ROOT / "docs" / "integrations.md").read_text().partition(f"\n## {title}\n")
    found = re.search(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert found is not None
    return found[1]


def run(code: list[str], said: str, model: ScriptedModel, **env: str) -> str:
    """What it prints, told these lines; its model is at the scripted endpoint."""
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
