"""agent-framework's own tests of sessions, with our provider in the place of theirs.

``TURNMILL_THEIR_TESTS`` names a folder with ``agent_framework_core``, the folder
``python/packages/core`` of its repository: its sdist has no tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("agent_framework")

HERE = Path(__file__).parent / "agent_framework"
TABLE = tomllib.loads((HERE / "agent_framework.toml").read_text())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_but_the_listed_pass() -> None:
    folder = Path(os.environ.get("TURNMILL_THEIR_TESTS", "")) / "agent_framework_core"
    if not folder.is_dir():
        pytest.skip("TURNMILL_THEIR_TESTS has no agent_framework_core, and its sdist has no tests")
    options = ["-p", "plugin", "-p", "no:randomly", "-o", "addopts=", "-q", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *TABLE["files"], "-k", TABLE["keyword"]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found
    assert int(found[1]) >= 180
