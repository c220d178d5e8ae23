"""Real Celery worker processes for tests: started in a session of their own, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Self

import psutil
import redis

from tests.forks import Fork, Nursery

PATIENCE = 3
"""A machine for tests may be so much slower, or busier, than one on which a time was chosen."""


def wait_until(
    condition: Callable[[], object],
    *,
    within_s: float = 30.0,
    what: str | Callable[[], str] = "condition",
) -> None:
    """Return as soon as the condition holds; fail when it does not in time, with `PATIENCE`.

    ``what`` names the condition, or is asked what there is instead, such as a log.
    """
    deadline = time.monotonic() + within_s * PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {within_s * PATIENCE} s: {told}")
        time.sleep(0.02)


def emptied(redis_url: str) -> None:
    """Delete all that earlier tests left on a shared server, before a worker would take it on."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()


_nursery = lru_cache(maxsize=1)(Nursery)
_CELERY = (sys.executable, "-m", "celery")


class WorkerProcess:
    """`celery -A turnmill_worker.app worker`, with its log in ``folder``."""

    def __init__(
        self,
        redis_url: str,
        folder: Path,
        *,
        name: str = "test",
        queues: str = "estimate,compact,summarize,archive",
        pool: str = "solo",
        concurrency: int = 1,
        env: Mapping[str, str] | None = None,
        ready_within_s: float = 40.0,
    ) -> None:
        self._ready_within_s = ready_within_s
        self.log = folder / f"{name}.log"
        self._command = [
            *_CELERY,
            *("-A", "turnmill_worker.app", "worker"),
            *("--hostname", f"{name}@%h", "--queues", queues, "--pool", pool),
            *("--concurrency", str(concurrency), "--loglevel", "INFO", "--without-mingle"),
            "--without-gossip",
        ]
        self._env = {
            **os.environ,
            "TURNMILL_REDIS_URL": redis_url,
            "TURNMILL_SWEEP_INTERVAL_S": "0.2",
            "TURNMILL_STALE_AFTER_S": "0.4",
            "TURNMILL_LEASE_S": "2",
            "TURNMILL_ARCHIVE_URL": "none",
            "PYTHONWARNINGS": "ignore",
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | Fork | None = None

    @property
    def pid(self) -> int:
        """Of the worker's main process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, within_s: float = 40.0) -> Self:
        """Start and wait until it takes tasks."""
        self._process = self._begun()
        try:
            wait_until(
                lambda: " ready." in self.output() or self._process_ended(),
                within_s=within_s,
                what="worker ready",
            )
        except AssertionError:
            if within_s > 0:
                self.kill()  # nobody else would: the next server on its Redis' port would get it
            raise
        assert not self._process_ended(), self.output()
        return self

    def _begun(self) -> subprocess.Popen[bytes] | Fork:
        plain = self._command[:3] == [*_CELERY] and self._env["PYTHONWARNINGS"] == "ignore"
        if plain and self._env.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
            return _nursery().fork(
                self._command[3:], env=self._env, folder=self.log.parent, log=self.log
            )
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _process_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def output(self) -> str:
        """Everything it printed and logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self, *, within_s: float = 30.0) -> int:
        """End it warmly (SIGTERM); returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=within_s)

    def kill(self) -> None:
        """End it and its children with SIGKILL, at once."""
        process = self._process  # somebody may start it again meanwhile
        if process is None:
            return
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        process.kill()
        process.wait()
        for child in family:
            if child.is_running():
                child.kill()

    def __enter__(self) -> Self:
        return self.start(within_s=self._ready_within_s)

    def __exit__(self, *_: object) -> None:
        # Warm first: coverage data is written on the way out.
        if not self._process_ended():
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
