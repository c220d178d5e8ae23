"""What a command did, and `turnmill up` as a process under test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from tests.processes import wait_until
from turnmill.connection.embedded import free_port

__all__ = ["Ran", "UpProcess", "ended"]

START_S = 100.0


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.stdout)


def ended(family: list[psutil.Process]) -> bool:
    """Whether none of the processes runs; a zombie waits for its parent only."""
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)


def _command(one: psutil.Process) -> str:
    try:
        return " ".join(one.cmdline())
    except psutil.Error:  # it ended, or waits for its parent only
        return ""


class UpProcess:
    """`turnmill up` on free ports, its output in a file; ended, with all its children, at exit."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.flower_port = free_port()
        self._options = options
        self._output = folder.with_suffix(".out")
        self._env = {**os.environ, "COLUMNS": "200", **(env or {})}
        self._env.pop("TURNMILL_REDIS_URL", None)
        self._process: subprocess.Popen[bytes] | None = None
        self._family: list[psutil.Process] = []

    @property
    def redis_url(self) -> str:
        """Of the embedded server."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def command(self) -> list[str]:
        """What is run."""
        words = [sys.executable, "-m", "turnmill_cli", "up", "--data-dir", str(self.folder)]
        if "--redis-url" not in self._options and not self.folder.exists():  # it keeps its port
            words += ["--port", str(self.port)]
        if "--no-flower" not in self._options:
            words += ["--flower-port", str(self.flower_port)]
        return [*words, "--workers", "1", *self._options]

    def launch(self, terminal: int | None = None) -> Self:
        """Start it, with its output in the file or on a terminal."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self.command,
                env=self._env,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=output if terminal is None else terminal,
                stderr=subprocess.STDOUT,
                start_new_session=terminal is None,
            )
        return self

    def wait_until_up(self) -> None:
        """Wait for the line that says so."""
        wait_until(
            lambda: "turnmill is up" in self.output() or self.exit_code is not None,
            within_s=START_S,
            what="turnmill up",
        )
        assert self.exit_code is None, self.output()

    def family(self) -> list[psutil.Process]:
        """The processes it has started and runs now."""
        assert self._process is not None
        found = psutil.Process(self._process.pid).children(recursive=True)
        self._family += found
        return found

    def child(self, words: str) -> psutil.Process:
        """The process it runs with these words in its command."""
        return next(one for one in self.family() if words in _command(one))

    def runs(self, words: str) -> bool:
        """Whether it has a running child with these words in its command."""
        return any(words in _command(one) for one in self.family())

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def output(self) -> str:
        """All it printed."""
        return self._output.read_text()

    def send(self, how: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(how)

    def wait(self, within_s: float = 60.0) -> int:
        """Its exit code, when it has ended."""
        assert self._process is not None
        return self._process.wait(timeout=within_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self.family()
            self.send(signal.SIGTERM)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for one in self._family:
            if not ended([one]):
                one.kill()
