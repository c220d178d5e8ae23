"""ADK's own contract of session services, held to ours.

The package of google-adk has no tests. ``TURNMILL_THEIR_TESTS`` names a folder in which
``adk-python`` is a checkout of its repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("google.adk")

HERE = Path(__file__).parent / "google_adk"
CONTRACT = "tests/unittests/sessions/test_session_service.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_but_the_listed_pass() -> None:
    theirs = Path(os.environ.get("TURNMILL_THEIR_TESTS", "")) / "adk-python"
    if not (theirs / CONTRACT).is_file():
        pytest.skip("TURNMILL_THEIR_TESTS has no checkout of adk-python")

    options = ["-p", "plugin", "-p", "no:randomly", "-o", "addopts=", "-o", "asyncio_mode=auto"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-W", "ignore", CONTRACT],
        cwd=theirs,
        env={**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found
    assert int(found[1]) >= 15
