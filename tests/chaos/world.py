"""Real Celery workers, ended and frozen at will and begun again."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import redis

from tests.chaos.agents import AgentPlan, load, spawn
from tests.chaos.checker import (
    POLICIES,
    SYSTEM_PROMPT,
    Collected,
    FinalState,
    Loss,
    Report,
    left_behind,
    positions,
    reported,
)
from tests.chaos.proxy import Proxy
from tests.chaos.servers import Server
from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, SilentWaker
from turnmill.testing import FakeEndpoint

LEASE_S = 2.0


class Worker(WorkerProcess):
    """A worker that can be begun without waiting for it, and frozen."""

    begun = 0

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

    def add(self, **env: str) -> Worker:
        """Begin one more."""
        number = len(self.workers)
        worker = Worker(
            self.redis_url,
            self.folder,
            name=f"w{number}",
            pool="threads" if number % 2 else "prefork",
            concurrency=2,
            env={**self.env, **env},
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


SETTLES_WITHIN_S = 10.0
"""Of this, waiting for sweeps and leases takes two seconds at most. The rest is for queued work."""

LATE_S = 60.0

STILL_S = 5.0
"""What is late is waited for as long as anything moves: what a bug left behind, never does."""


class World:
    """A namespace with all that serves it, in a folder of its own, while it is entered."""

    def __init__(
        self,
        folder: Path,
        *,
        fsync: str = "everysec",
        archive_url: str = "",
        namespace: str = "chaos",
    ) -> None:
        self.folder = folder
        self.namespace = namespace
        self.fsync = fsync
        self.archive_url = archive_url or f"sqlite:///{folder}/archive.db"
        self.store = Server(folder / "store", fsync=fsync)
        self.broker = Server(folder / "broker", appendonly="no")
        self.endpoint = FakeEndpoint(latency_s=0.05)
        self.losses: list[Loss] = []
        self.sessions: dict[str, str] = {}
        self._agents: dict[str, tuple[AgentPlan, subprocess.Popen[bytes]]] = {}
        self._lives = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.began_s = time.monotonic()
        (self.folder / "history").mkdir(parents=True)
        self._stack.callback(lambda: self.store.stop())  # noqa: PLW0108 - it may be another by then
        self.store.start()
        self._stack.enter_context(self.broker)
        self._stack.enter_context(self.endpoint)
        self.front = self._stack.enter_context(Proxy(self.store.port))
        self.back = self._stack.enter_context(Proxy(self.store.port))
        self.fleet = Fleet(self.folder, self.back.url, self._worker_env())
        self._stack.callback(self.fleet.stop)
        self._stack.callback(self.stop_agents)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _worker_env(self) -> dict[str, str]:
        return {
            "TURNMILL_BROKER_URL": self.broker.url,
            "TURNMILL_ARCHIVE_URL": self.archive_url,
            "TURNMILL_LEASE_S": str(int(LEASE_S)),
            "TURNMILL_MODEL_URL": self.endpoint.base_url,
            "TURNMILL_MODEL_KEY": "sk-for-tests",
            # On a full disk, Python leaves half a file of bytecode, which no worker can load.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def revive(self) -> None:
        """Start again what a test that failed midway left dead for the next one."""
        for server in (self.store, self.broker):
            if not server.alive:
                server.start()

    def take_over(self, server: Server) -> float:
        """Lead everybody to another store from now on; returns when the one before was gone."""
        self.store.kill()
        gone_s = time.monotonic()
        self.store = server
        self.front.lead_to(server.port)
        self.back.lead_to(server.port)
        return gone_s

    # agents

    def open(self, sessions: Mapping[str, str]) -> None:
        """Open sessions, each for a style of turns."""
        with self.client() as client:
            for name, style in sessions.items():
                client.open(name, POLICIES[style], SYSTEM_PROMPT)
        self.sessions |= sessions

    def client(self) -> ContextClient:
        """A client that no fault meets, and that sends no hints."""
        return ContextClient(self.store.url, namespace=self.namespace, broker=SilentWaker())

    def agent(self, name: str, sessions: Mapping[str, str], **options: object) -> None:
        """Open the sessions and start an agent with them."""
        self.open(sessions)
        plan = AgentPlan(
            name=name,
            url=self.front.url,
            broker=self.broker.url,
            namespace=self.namespace,
            sessions=dict(sessions),
            folder=str(self.folder / "history"),
        )
        self._begin(name, replace(plan, **options))  # type: ignore[arg-type]

    def _begin(self, name: str, plan: AgentPlan) -> None:
        self._lives += 1
        self._agents[name] = plan, spawn(replace(plan, name=f"{name}.{self._lives}"))

    @property
    def agents(self) -> list[str]:
        """Their names."""
        return list(self._agents)

    def end_agent(self, name: str, how: signal.Signals) -> None:
        """Signal one of them, and start its successor, who knows nothing of it."""
        plan, process = self._agents[name]
        process.send_signal(how)
        process.wait(timeout=30)
        self._begin(name, plan)

    def stop_agents(self, *, within_s: float = 15.0) -> None:
        """Let all of them finish the call they are in."""
        for _, process in self._agents.values():
            process.send_signal(signal.SIGTERM)
        for _, process in self._agents.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=within_s)
            process.kill()
            process.wait()
        self._agents.clear()

    # the end

    def settle(self, *, within_s: float, still_s: float = math.inf) -> float:
        """Wait until nothing waits any more; returns how long that took, at most this long.

        Or until nothing has moved for ``still_s``. Traps set before may still kill a worker: it is
        begun again, as a supervisor would.
        """
        began = moved = time.monotonic()
        before: object = None
        while self.left() and (now := time.monotonic()) < min(began + within_s, moved + still_s):
            self.fleet.replace()
            time.sleep(0.1)
            if (at := self._positions()) != before:
                before, moved = at, now
        return time.monotonic() - began

    def _positions(self) -> object:
        with redis.Redis.from_url(self.store.url) as client:
            return positions(client, self.namespace, self.sessions)

    def left(self) -> dict[str, int]:
        """What waits still, or was left behind."""
        with redis.Redis.from_url(self.store.url) as client:
            return left_behind(client, self.namespace)

    def finish(self, *sessions: str, within_s: float = SETTLES_WITHIN_S) -> Report:
        """Stop the agents, let the workers settle, and check these sessions, or all."""
        self.stop_agents()
        self.fleet.replace()
        self.fleet.wait(within_s=180.0)
        settled_s = self.settle(within_s=within_s)
        late = self.left() if settled_s >= within_s else {}
        if late:  # said, and waited for: what still moves would look lost
            self.settle(within_s=LATE_S, still_s=STILL_S)
        names = sessions or tuple(self.sessions)
        styles = {name: self.sessions[name] for name in names}
        stored = Collected(self.store.url, self.namespace, names, self.archive_url)
        # What a worker takes up again afterwards, as it does from time to time, is not left behind.
        final = FinalState(stored, late)
        history = load(self.folder / "history")
        seconds = time.monotonic() - self.began_s
        return reported(history, final, styles, self.losses, seconds=seconds, settled_s=settled_s)
