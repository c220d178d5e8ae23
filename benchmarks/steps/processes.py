"""Workers as a user starts them, and the CPU time of all processes of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from tests.processes import wait_until
from turnmill_cli.local.children import worker_children

__all__ = ["QUIET_S", "ROOT", "Cpu", "Cpus", "Pins", "Process", "quiet", "workers"]

ROOT = Path(__file__).parents[2]
QUIET_S = 3.0
QUIET_SHARE = 0.03
QUIET_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Pins:
    """The cores that agents and Redis have, and those of the workers; all for all when empty."""

    agents: str = ""
    workers: str = ""

    @staticmethod
    def launcher(cores: str) -> list[str]:
        """The words before a command that keep it to these cores."""
        return ["taskset", "--cpu-list", cores] if cores else []


class Process:
    """A child that ends with the block it was started in, warmly if it can."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                env={**os.environ, **env},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def output(self) -> str:
        """What it wrote so far."""
        return self.log.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether the worker takes tasks."""
        if self._child.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.output()[-2000:]}")
        return " ready." in self.output()

    def end(self) -> None:
        """Ask it to end, and insist after a while."""
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(self.pid).children(recursive=True):
                child.kill()
            self._child.kill()
            self._child.wait()


def worker_commands(kind: str) -> dict[str, list[str]]:
    """The workers' commands by name.

    ``pair``: one prefork worker, and two of threads for summaries. ``up``: what ``turnmill up``
    starts. ``compose``: the services of docker-compose.yml.
    """
    celery = [sys.executable, "-m", "celery"]
    if kind == "up":
        specs = worker_children(2, logs=Path(), env={}, host="steps")
        return {spec.name: list(spec.command) for spec in specs}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    found: dict[str, list[str]] = {
        name: [*celery, *service["command"][1:]]
        for name, service in services.items()
        if any(word.startswith("--queues=") for word in service.get("command", ()))
    }
    if kind == "compose":
        return found
    others = ",".join(name for name in found if name != "summarize")
    prefork = [
        word.replace("--queues=compact", f"--queues={others}").replace("compact@", "prefork@")
        for word in found["compact"]
    ]
    second = [word.replace("summarize@", "summarize2@") for word in found["summarize"]]
    return {"prefork": prefork, "summarize": found["summarize"], "summarize2": second}


@contextmanager
def workers(kind: str, folder: Path, env: dict[str, str], cores: str) -> Iterator[list[Process]]:
    """All of them, ready."""
    running: list[Process] = []
    try:
        for name, command in worker_commands(kind).items():
            words = [*Pins.launcher(cores), *command]
            running.append(Process(name, words, folder / f"{name}.log", env))
        for each in running:
            wait_until(each.ready, within_s=90, what=f"{each.name} ready")
        yield running
    finally:
        for each in reversed(running):
            each.end()


Cpus = dict[str, float]
"""Seconds by name of a process."""


class Cpu:
    """CPU time of processes by name: of each, and of all its descendants together."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}

    def now(self) -> Cpus:
        """Seconds so far; ``name children`` are the descendants."""
        found: Cpus = {}
        for name, process in self._processes.items():
            found[name] = _seconds(process)
            children = process.children(recursive=True)
            if children:
                found[f"{name} children"] = sum(map(_seconds, children))
        return found


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def quiet(cpu: Cpu, *, for_s: float, within_s: float = QUIET_WITHIN_S) -> float:
    """Wait until the processes have used next to nothing for a while; seconds until it began."""
    begun = time.monotonic()
    used, since = sum(cpu.now().values()), begun
    while time.monotonic() - since < for_s and time.monotonic() - begun < within_s:
        time.sleep(0.25)
        now = sum(cpu.now().values())
        if now - used > QUIET_SHARE * for_s:
            used, since = now, time.monotonic()
    return since - begun
