"""The commands `turnmill up` runs: workers and Flower."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

from turnmill.connection.embedded import free_port
from turnmill_cli.local.child_process import ChildSpec
from turnmill_cli.output import CommandFailed, install

__all__ = [
    "check_installed",
    "choose_flower_port",
    "choose_port",
    "flower",
    "flower_command",
    "workers",
]

_CELERY = (sys.executable, "-m", "celery", "-A", "turnmill_worker.app")
FLOWER_PORT = 5555
SUMMARIZE_THREADS = 8
"""Model calls that one process waits for at once."""

MOST_SUMMARIZERS = 2
"""Processes that summarize: around a model's answer, and without a model, each takes CPU time."""


def check_installed(*, with_flower: bool) -> None:
    """Make sure workers and Flower can be started.

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


def workers(number: int, *, logs: Path, env: dict[str, str], host: str) -> list[ChildSpec]:
    """``number`` processes that count and compact, and one or two that summarize; none for 0."""
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
    return [*compute, *summarize]


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


def flower(*, port: int, logs: Path, env: dict[str, str]) -> ChildSpec:
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


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
