"""Real Celery workers, ended and frozen at will and begun again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.processes import WorkerProcess, wait_until

__all__ = ["Fleet", "Worker"]

LEASE_S = 2.0


class Worker(WorkerProcess):
    """A worker that can be begun without waiting for it, and frozen."""

    begun = 0
    is_newer = False

    def begin(self) -> None:
        """Start it; ``ready`` tells when it takes tasks."""
        self.begun = self.output().count(" ready.")
        with suppress(AssertionError):
            self.start(within_s=0.0)

    @property
    def ready(self) -> bool:
        """Whether it takes tasks since it was begun."""
        return self.output().count(" ready.") > self.begun

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def switch(self, newer: Mapping[str, str]) -> None:
        """Begin next time with the newer version's environment, or with this version's again."""
        here = os.environ.get("PYTHONPATH", "")
        self.is_newer = not self.is_newer
        self._env["PYTHONPATH"] = newer["PYTHONPATH"] if self.is_newer else here

    def family(self) -> list[psutil.Process]:
        """Its processes, the main one last: a main one alone would see its children die."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.pid)
            return [*main.children(recursive=True), main]
        return []

    def freeze(self) -> None:
        """SIGSTOP all of it."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """SIGCONT all of it."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def end(self, how: signal.Signals) -> None:
        """Signal it; after SIGKILL all of it is gone."""
        if how == signal.SIGKILL:
            self.kill()
        elif self.alive:
            psutil.Process(self.pid).send_signal(how)


@dataclass
class Fleet:
    """The workers of a run; every second has threads, the others have processes."""

    folder: Path
    redis_url: str
    env: Mapping[str, str]
    workers: list[Worker] = field(default_factory=list)
    _beginning: threading.RLock = field(default_factory=threading.RLock)

    def add(self, *, pool: str = "", path: str = "", **env: str) -> Worker:
        """Begin one more. ``path``: where its packages are, for a fleet of two versions."""
        number = len(self.workers)
        extra = {"PYTHONPATH": path} if path else {}
        worker = Worker(
            self.redis_url,
            self.folder,
            name=f"w{number}",
            pool=pool or ("threads" if number % 2 else "prefork"),
            concurrency=2,
            env={**self.env, **extra, **env},
        )
        self.workers.append(worker)
        worker.begin()
        return worker

    def wait(self, *, within_s: float = 60.0) -> None:
        """Wait until all of them take tasks."""
        wait_until(
            lambda: all(worker.ready for worker in self.workers),
            within_s=within_s,
            what="workers ready",
        )

    def replace(self) -> int:
        """Begin again those that have ended, as a supervisor would; returns how many.

        Two faults at a time may ask for it: a worker begun twice would be one that nobody ends.
        """
        with self._beginning:
            ended = [worker for worker in self.workers if not worker.alive]
            for worker in ended:
                worker.begin()
            return len(ended)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """All of them are killed, and nobody begins one until the block ends; then all begin."""
        with self._beginning:
            for worker in self.workers:
                worker.kill()
            yield
            self.replace()

    def stop(self) -> None:
        """End them all: warmly, since coverage is written on the way out, then not."""
        for worker in self.workers:
            worker.thaw()
            worker.end(signal.SIGTERM)
        end_s = time.monotonic() + 5
        while any(worker.alive for worker in self.workers) and time.monotonic() < end_s:
            time.sleep(0.02)
        for worker in self.workers:
            worker.kill()
