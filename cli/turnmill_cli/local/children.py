"""Child processes: workers and Flower as commands, started tethered, ended by pid."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnmill.connection.embedded import free_port
from turnmill_cli.local import tether
from turnmill_cli.output import CommandFailed, install

# --- one child ------------------------------------------------------------------------------------


def tethered(how: signal.Signals, *, lock: Path | None = None) -> list[str]:
    """The words before a command that make it end with this process.

    Args:
        how: what it gets when this process dies.
        lock: a file the command holds a lock on while it runs.
    """
    parent = str(os.getpid())
    return [sys.executable, "-IS", tether.__file__, parent, str(int(how)), str(lock or "")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run.

    Attributes:
        name: what a person calls it.
        node: its Celery node name, or empty when it is not a worker.
        env: variables beside those of this process.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    node: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


class Child:
    """A process of a spec; may be started again after its end."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.started_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output goes to the end of its log."""
        self.started_at = time.monotonic()
        with self.spec.log.open("ab") as log:
            self._process = subprocess.Popen(
                # A crash of ours is a crash of theirs: the sweep repairs it, and nothing lingers.
                [*tethered(signal.SIGKILL), *self.spec.command],
                env={**os.environ, **self.spec.env},
                cwd=self.spec.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for us, who end it in order
            )

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or when it never did."""
        return self._process.poll() if self._process else None

    def send(self, how: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._process is not None:
            self._process.send_signal(how)

    def last_line(self) -> str:
        """The last line it wrote, or an empty string."""
        try:
            with self.spec.log.open("rb") as log:
                log.seek(max(self.spec.log.stat().st_size - 2000, 0))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def end(children: Iterable[Child], *, grace_s: float, hurry: Callable[[], bool]) -> list[str]:
    """End them together, warmly; kill those left after ``grace_s`` or when ``hurry`` says so.

    Returns the names of the killed.
    """
    running = [child for child in children if child.alive]
    for child in running:
        child.send(signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(child.alive for child in running) and time.monotonic() < deadline and not hurry():
        time.sleep(0.05)
    killed = [child for child in running if child.alive]
    for child in killed:
        child.send(signal.SIGKILL)
    while any(child.alive for child in killed):
        time.sleep(0.01)
    return [child.spec.name for child in killed]


# --- what is run ----------------------------------------------------------------------------------

_CELERY = (sys.executable, "-m", "celery", "-A", "turnmill_worker.app")
FLOWER_PORT = 5555
SUMMARIZE_THREADS = 8
"""Model calls that one process waits for at once."""

MOST_SUMMARIZERS = 2
"""Processes that summarize: around a model's answer, and without a model, each takes CPU time."""


def check_installed(*, with_flower: bool) -> None:
    """Make sure worker_children and Flower can be started.

    Raises:
        CommandFailed: says what to install.
    """
    missing = [name for name in ("pydantic_settings", "structlog") if not _is_there(name)]
    if missing:
        raise CommandFailed(f"workers need more packages: {install('embedded')}")
    if with_flower and not _is_there("flower"):
        raise CommandFailed(f"Flower is not installed: {install('flower')}, or --no-flower")


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def worker_children(
    number: int, *, logs: Path, env: dict[str, str], host: str, metrics_port: int = 0
) -> list[ChildSpec]:
    """``number`` processes that count and compact, and one or two that summarize; none for 0.

    Each tells its metrics at a port of its own: the first at ``metrics_port``, if that is not 0.
    """
    if not number:
        return []
    # Processes of one thread each, not one with a pool: Flower counts them one by one, they are
    # faster than prefork on tasks this short, and have no children that could outlive them.
    compute = [
        _worker(f"worker-{at}", "estimate,compact,archive", "solo", 1, logs, env, host)
        for at in range(1, number + 1)
    ]
    summarize = [
        _worker(f"summarize-{at}", "summarize", "threads", SUMMARIZE_THREADS, logs, env, host)
        for at in range(1, min(number, MOST_SUMMARIZERS) + 1)
    ]
    return [
        replace(spec, env={**spec.env, "TURNMILL_METRICS_PORT": str(metrics_port and port)})
        for port, spec in enumerate([*compute, *summarize], metrics_port)
    ]


def _worker(
    name: str, queues: str, pool: str, concurrency: int, logs: Path, env: dict[str, str], host: str
) -> ChildSpec:
    node = f"{name}@{host}"
    return ChildSpec(
        name=name,
        node=node,
        log=logs / f"{name}.log",
        env=env,
        command=(
            *(*_CELERY, "worker", "--hostname", node, "--queues", queues, "--pool", pool),
            *("--concurrency", str(concurrency), "--loglevel", "INFO", "-E"),
            *("--without-mingle", "--without-gossip"),
        ),
    )


def flower_child(*, port: int, logs: Path, env: dict[str, str]) -> ChildSpec:
    """Flower on loopback."""
    command = flower_command(address="127.0.0.1", port=port)
    return ChildSpec(name="flower", log=logs / "flower.log", env=env, command=command)


def flower_command(*, address: str, port: int) -> tuple[str, ...]:
    """Flower with turnmill's configuration."""
    conf = Path(__file__).with_name("flower_config.py")
    return (*_CELERY, "flower", f"--address={address}", f"--port={port}", f"--conf={conf}")


def choose_flower_port(asked: int | None) -> int:
    """The port that was asked for, else 5555 if it is free, else any free one."""
    return choose_port(asked, FLOWER_PORT, "--flower-port")


def choose_port(asked: int | None, usual: int, option: str) -> int:
    """The port that was asked for, else the usual one if it is free, else any free one.

    Raises:
        CommandFailed: the port asked for is in use.
    """
    if asked is not None and not _is_free(asked):
        raise CommandFailed(f"port {asked} is in use: choose another with {option}")
    if asked is not None:
        return asked
    if _is_free(usual):
        return usual
    return free_port()


def check_port(port: int, host: str = "127.0.0.1", option: str = "--port") -> None:
    """Make sure a server can listen there.

    Raises:
        CommandFailed: it cannot.
    """
    if not _is_free(port, host):
        raise CommandFailed(f"port {port} is in use: choose another with {option}")


def _is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
