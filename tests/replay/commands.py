"""Commands run as a person runs them, against real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.commands import Ran

__all__ = ["run"]


def run(folder: Path, *words: object, timeout_s: float = 100) -> Ran:
    """Run `turnmill` with these words, away from the environment's own settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TURNMILL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "turnmill_cli", *map(str, words)],
        cwd=folder,
        env={**environment, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
