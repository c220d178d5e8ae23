"""A setting that is wrong ends a worker with one line that says which."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from turnmill_worker.errors import InvalidSettings
from turnmill_worker.settings import load_settings

BAD = {"TURNMILL_MODEL_API": "telepathy", "TURNMILL_MODEL_WINDOW_TOKENS": "10"}


def test_every_wrong_variable_is_named_and_no_value_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in BAD.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidSettings) as caught:
        load_settings()

    assert str(caught.value) == (
        "TURNMILL_MODEL_API: Input should be 'chat' or 'responses'; "
        "TURNMILL_MODEL_WINDOW_TOKENS: Input should be greater than or equal to 4096"
    )


@pytest.mark.worker
def test_a_worker_says_so_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "turnmill_worker.app", "worker"],
        env={**os.environ, **BAD},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("TURNMILL_MODEL_API: ")
    assert done.stderr.count("\n") == 1
