"""Commands as a person runs them: in this process for speed, or as one of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.commands import Ran
from tests.processes import WorkerProcess, emptied
from turnmill.connection.embedded import EmbeddedRedis
from turnmill_cli.app import app
from turnmill_cli.doctor import checks
from turnmill_cli.output import stderr, stdout


@pytest.fixture(autouse=True)
def _new_consoles() -> None:
    """A process prints to one console, as wide as COLUMNS said at first; tests differ in it."""
    stdout.cache_clear()
    stderr.cache_clear()


@pytest.fixture(autouse=True)
def _impatient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor does not wait long for workers that are not there."""
    monkeypatch.setattr(checks, "TIMEOUT_S", 0.3)


@pytest.fixture
def turnmill(
    redis_server: EmbeddedRedis, namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ran]:
    """Runs a command in this process against the test's namespace, named by the environment."""
    monkeypatch.setenv("TURNMILL_REDIS_URL", redis_server.url)
    monkeypatch.delenv("TURNMILL_BROKER_URL", raising=False)
    monkeypatch.delenv("TURNMILL_ARCHIVE_URL", raising=False)
    monkeypatch.delenv("TURNMILL_TEMPLATE_DIRS", raising=False)
    monkeypatch.setenv("TURNMILL_DATA_DIR", str(tmp_path / "no-data"))
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
            [sys.executable, "-m", "turnmill_cli", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="module")
def data_dir(
    redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Where a running worker keeps its archive."""
    folder = tmp_path_factory.mktemp("worker")
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    emptied(redis_server.url)
    with WorkerProcess(redis_server.url, folder, env=env):
        yield folder / "data"


@pytest.fixture
def served(
    turnmill: Callable[..., Ran], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """``turnmill`` beside a worker, whose archive the environment names."""
    monkeypatch.setenv("TURNMILL_DATA_DIR", str(data_dir))
    return turnmill
