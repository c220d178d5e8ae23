"""Commands as a person runs them: in this process for speed, or as one of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from tests.cli.commands import Ran
from turnmill.cli.app import app
from turnmill.embedded import EmbeddedRedis


@pytest.fixture
def turnmill(
    redis_server: EmbeddedRedis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Runs a command in this process against the test's namespace, named by the environment."""
    monkeypatch.setenv("TURNMILL_REDIS_URL", redis_server.url)
    monkeypatch.delenv("TURNMILL_BROKER_URL", raising=False)
    monkeypatch.setenv("TURNMILL_NAMESPACE", namespace)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, stdin: str | bytes = "") -> Ran:
        result = CliRunner().invoke(app, words, input=stdin, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def turnmill_process(turnmill: Callable[..., Ran]) -> Callable[..., Ran]:
    """Runs a command as a process; the environment is that of ``turnmill``."""
    del turnmill

    def run(*words: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "turnmill.cli", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
