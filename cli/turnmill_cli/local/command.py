"""``turnmill up``: Redis, workers and Flower on this machine, in one foreground process tree."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmill.embedded_redis import EmbeddedRedis
from turnmill_cli.archive_database import UP_DATA_DIR
from turnmill_cli.broker import BrokerView
from turnmill_cli.local import child_commands as specs
from turnmill_cli.local.child_process import tethered
from turnmill_cli.local.lock import locked
from turnmill_cli.local.status import StatusReader
from turnmill_cli.local.stop_signals import StopSignals
from turnmill_cli.local.supervisor import Supervisor
from turnmill_cli.local.watch import watch
from turnmill_cli.options import BrokerUrl, NamespaceName, Target
from turnmill_cli.output import CommandFailed, clean, safe_url, stdout

__all__ = ["register"]

REDIS_PORT = 6379
FLOWER_PORT = 5555
MOST_WORKERS = 4
"""Unless asked for more: beyond it a development machine has other things to do."""

REDIS_START_S = 120.0
"""A large append-only file takes its time to load."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(up)


def up(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR", envvar="TURNMILL_DATA_DIR", help="Where data and logs are kept."
        ),
    ] = UP_DATA_DIR,
    redis_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="TURNMILL_REDIS_URL",
            help="A Redis of one's own instead of the embedded one.",
            show_default=False,
        ),
    ] = "",
    broker_url: BrokerUrl = "",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The embedded Redis's port: 6379, if that is free."),
    ] = None,
    flower: Annotated[bool, typer.Option(help="Whether to run Flower.")] = True,
    flower_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Flower's port: 5555, if that is free.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that count and compact.")
    ] = min(os.cpu_count() or 1, MOST_WORKERS),
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For tasks under way at the end.")
    ] = 10.0,
    namespace: NamespaceName = "default",
) -> None:
    """Run everything turnmill needs until Ctrl-C: Redis, workers and Flower.

    The data stays in --data-dir. --namespace is the one the status line is about; workers serve
    all of them. On Linux nothing outlives this process, even when it is killed.
    """
    if redis_url and port:
        raise typer.BadParameter(
            "is for the embedded Redis, not with --redis-url", param_hint="--port"
        )
    Target(redis_url, broker_url, namespace).checked_namespace()
    specs.check_installed(with_flower=flower)
    folder = data_dir.absolute()
    with locked(folder), StopSignals() as signals, _redis(folder, redis_url, port) as server:
        url = server.url if server else redis_url
        ports = specs.choose_port(flower_port, FLOWER_PORT, "--flower-port") if flower else 0
        target = Target(url, broker_url, namespace)
        _Tree(target, folder, signals, server, ports, workers, grace).run()
    _tell(f"stopped; the data is in {folder}" if server else "stopped")


@contextmanager
def _redis(folder: Path, redis_url: str, port: int | None) -> Iterator[EmbeddedRedis | None]:
    """The embedded Redis while inside the block; None with one of one's own, which answers."""
    if redis_url:
        with Target(redis_url, "", "default").redis() as client:
            client.ping()
        yield None
        return
    server = EmbeddedRedis(
        folder / "redis",
        port=specs.choose_port(port, REDIS_PORT, "--port"),
        # After a kill the old server may still be writing: the lock makes the new one wait for it.
        launcher=tethered(signal.SIGTERM, lock=folder / "redis.lock"),
    )
    server.start(within_s=REDIS_START_S)
    try:
        yield server
    finally:
        try:
            server.stop()
        except subprocess.TimeoutExpired:
            server.kill()


@dataclass(frozen=True, slots=True)
class _Tree:
    """Workers and Flower over a Redis that answers."""

    target: Target
    folder: Path
    signals: StopSignals
    server: EmbeddedRedis | None
    flower_port: int
    workers: int
    grace_s: float

    def run(self) -> None:
        """Start all, say where, watch until told to stop, end all.

        Raises:
            CommandFailed: something did not start, or the embedded Redis ended.
        """
        supervisor = self._supervisor()
        if self.signals.stopping:
            return
        with ExitStack() as stack:
            broker = stack.enter_context(BrokerView(self.target.broker))
            client = stack.enter_context(self.target.redis())
            try:
                supervisor.start(broker, self.signals)
                if not self.signals.stopping:
                    self._announce()
                    reader = StatusReader(client, broker, self.target.checked_namespace())
                    stack.callback(reader.close)
                    watch(reader, supervisor, self.signals, self._check_redis)
            finally:
                _tell("stopping; Ctrl-C again to hurry")
                supervisor.stop(grace_s=self.grace_s, hurry=lambda: self.signals.hurried)

    def _supervisor(self) -> Supervisor:
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        env = {
            "TURNMILL_REDIS_URL": self.target.redis_url,
            "TURNMILL_BROKER_URL": self.target.broker_url,
            "TURNMILL_DATA_DIR": str(self.folder),
        }
        # A shared broker may have another machine's or directory's `up` on it: no two nodes alike.
        host = socket.gethostname() + ("" if self.server else f".{os.getpid()}")
        flower = specs.flower(port=self.flower_port, logs=logs, env=env)
        return Supervisor(
            specs.workers(number=self.workers, logs=logs, env=env, host=host),
            flower if self.flower_port else None,
            flower_port=self.flower_port,
            tell=_tell,
        )

    def _check_redis(self) -> None:
        if self.server and not self.server.alive:
            raise CommandFailed(
                f"redis-server ended; see the end of {self.server.directory / 'redis.log'}"
            )

    def _announce(self) -> None:
        lines = {"Redis": safe_url(self.target.redis_url)}
        if self.target.broker_url:
            lines["Broker"] = safe_url(self.target.broker_url)
        if self.flower_port:
            lines["Flower"] = f"http://127.0.0.1:{self.flower_port}"
        lines |= {"Data": str(self.folder), "Logs": str(self.folder / "logs")}
        console = stdout()
        console.print("turnmill is up; Ctrl-C stops it and keeps the data", style="bold green")
        for name, value in lines.items():
            console.print(f"  {name:<8}{clean(value)}", markup=False, soft_wrap=True)


def _tell(line: str) -> None:
    # On the console of the live line, which moves down for it.
    stdout().print(clean(line), markup=False, soft_wrap=True)
