"""What a worker has imported once it is ready for jobs: nothing only a model needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.worker

STARTED = """
import json, sys
from turnmill_worker import wiring
from turnmill_worker.app import app
wiring.parts(app)
wiring.sweep_thread(app)
wiring.announcement("worker@host")
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]]))
"""


def imported(folder: Path, *packages: str, **env: str) -> list[str]:
    """The modules of these packages that a worker with this environment has imported."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STARTED, *packages],
        env={**os.environ, "TURNMILL_DATA_DIR": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: list[str] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_a_worker_without_a_model_imports_nothing_of_openai_or_its_http_library(
    tmp_path: Path,
) -> None:
    found = imported(tmp_path, "openai", "httpx2", "httpcore2", "celery")

    assert {name.partition(".")[0] for name in found} == {"celery"}


def test_one_with_a_key_has_imported_what_its_calls_use_before_the_first(tmp_path: Path) -> None:
    found = imported(tmp_path, "openai", TURNMILL_MODEL_KEY="sk-for-tests-only")

    used = {f"openai.resources.{name}" for name in ("chat", "responses", "files", "batches")}
    assert used <= set(found)
