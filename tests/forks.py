"""Celery workers forked off a process that has imported what each of them would import.

A start takes a tenth of the time. `turnmill_worker.app` alone reads the environment while it is
imported, so each fork imports it for itself. That a worker starts by its command is tested with
`turnmill up`, the services and the worker's log.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from select import select

ROOT = Path(__file__).parents[1]


class Fork:
    """What tests need of a `Popen`: its parent is the nursery, which writes its exit code down."""

    def __init__(self, pid: int, code: Path) -> None:
        self.pid = pid
        self._code = code

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return int(self._code.read_text()) if self._code.exists() else None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as soon as there is one."""
        deadline_s = time.monotonic() + (timeout or float("inf"))
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired("celery", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, one: signal.Signals) -> None:
        """Send it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, one)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks; begun with the first worker of a run."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="nursery")
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.forks import serve; serve()", self._folder.name],
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.end)

    def fork(
        self, celery: Sequence[str], *, env: Mapping[str, str], folder: Path, log: Path
    ) -> Fork:
        """Run `celery` with these words, its output behind what the log holds."""
        asked = {"words": celery, "env": dict(env), "folder": str(folder), "log": str(log)}
        assert self._process.stdin
        assert self._process.stdout
        with self._one_at_a_time:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            pid = int(self._process.stdout.readline())
        return Fork(pid, Path(self._folder.name) / str(pid))

    def end(self) -> None:
        """Let it write what coverage has measured."""
        self._process.communicate(timeout=30)
        self._folder.cleanup()


def serve() -> None:
    """Fork as often as a line on standard input asks for it; write down how each fork ended."""
    import celery.apps.worker  # noqa: PLC0415
    import celery.bin.celery  # noqa: F401, PLC0415
    import kombu.transport.redis  # noqa: F401, PLC0415

    import turnmill_worker.tasks  # noqa: F401, PLC0415

    codes = Path(sys.argv[1])
    alive = 0
    while True:
        if select([sys.stdin], [], [], 0.01)[0]:
            if not (line := sys.stdin.readline()):
                return
            pid = os.fork()
            if not pid:
                _become(**json.loads(line))
            (codes / str(pid)).unlink(missing_ok=True)
            alive += 1
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            alive -= 1
            written = codes / f"{pid}.new"
            written.write_text(str(os.waitstatus_to_exitcode(status)))
            written.rename(codes / str(pid))


def _become(words: Sequence[str], env: Mapping[str, str], folder: str, log: str) -> None:
    os.setsid()
    os.chdir(folder)
    sys.path[0] = folder
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):
        file = os.open(name, flags)
        os.dup2(file, number)
        os.close(file)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["celery", *words]
    runpy.run_module("celery", run_name="__main__", alter_sys=True)
    sys.exit()
