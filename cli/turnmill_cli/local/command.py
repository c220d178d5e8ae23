"""``turnmill up``: Redis, workers and Flower on this machine, in one foreground process tree."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.names import namespace as checked
from turnmill_cli.archive_database import UP_DATA_DIR
from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local import child_commands
from turnmill_cli.local.child_process import tethered
from turnmill_cli.local.lock import UpRunning, announce, locked
from turnmill_cli.local.status import StatusReader
from turnmill_cli.local.stop_signals import StopSignals, stop_signals
from turnmill_cli.local.supervisor import Supervisor
from turnmill_cli.local.up_loop import watch
from turnmill_cli.namespaces_view import NamespacesView
from turnmill_cli.options import (
    BrokerPasswordFile,
    BrokerUrl,
    Connection,
    RedisPasswordFile,
)
from turnmill_cli.output import CommandFailed, clean, safe_url, stdout
from turnmill_cli.setting import setting

__all__ = ["up"]

REDIS_PORT = 6379
MOST_WORKERS = 4
"""By default: a development machine has other things to do too."""

REDIS_START_S = 120.0
"""A large append-only file takes long to load."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What to run, and where."""

    data_dir: Annotated[
        Path, setting("--data-dir", "DIR", "The folder for data and logs.", panel="", shown=True)
    ] = UP_DATA_DIR
    redis_url: Annotated[
        str, setting("--redis-url", "URL", "Use this Redis instead of starting one.")
    ] = ""
    redis_password_file: RedisPasswordFile = None
    broker_url: BrokerUrl = ""
    broker_password_file: BrokerPasswordFile = None
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the Redis it starts; 6379 if it is free."),
    ] = None
    flower: Annotated[bool, typer.Option(help="Run Flower, which shows the jobs.")] = True
    flower_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of Flower; 5555 if it is free."),
    ] = None
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that count and compact.")
    ] = min(os.cpu_count() or 1, MOST_WORKERS)
    grace: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Time for tasks to finish at the end."),
    ] = 10.0
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Count only this namespace.", show_default=False)
    ] = ""


def up(options: UpOptions) -> None:
    """Run everything that turnmill needs until Ctrl-C: Redis, workers and Flower.

    The data stays in --data-dir. The workers serve all namespaces, and the status line counts them
    all. On Linux, nothing outlives this process, even if it is killed.
    """
    if options.redis_url and options.port:
        raise typer.BadParameter("cannot be combined with --redis-url", param_hint="--port")
    if options.namespace:
        checked(options.namespace)
    child_commands.check_installed(with_flower=options.flower)
    folder = options.data_dir.absolute()
    with locked(folder), stop_signals() as signals, _redis(folder, options) as server:
        _WorkersAndFlower(options, folder, signals, server).run()
    _tell(f"stopped; the data is in {folder}" if server else "stopped")


@contextmanager
def _redis(folder: Path, options: UpOptions) -> Iterator[EmbeddedRedis | None]:
    """The Redis it starts, until the block ends; None if an option names one, which answers."""
    if options.redis_url:
        given = Connection(options.redis_url, redis_password_file=options.redis_password_file)
        with given.redis() as view:
            view.client.ping()
        yield None
        return
    server = EmbeddedRedis(
        folder / "redis",
        port=child_commands.choose_port(options.port, REDIS_PORT, "--port"),
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
class _WorkersAndFlower:
    """The processes beside a Redis that answers."""

    options: UpOptions
    folder: Path
    signals: StopSignals
    server: EmbeddedRedis | None

    def run(self) -> None:
        """Start all, say where everything is, watch until told to stop, and end all.

        Raises:
            CommandFailed: something did not start, or the embedded Redis ended.
        """
        options, asked = self.options, self.options.flower_port
        url = self.server.url if self.server else options.redis_url
        connection = Connection(
            url,
            options.broker_url,
            options.namespace or "default",
            None if self.server else options.redis_password_file,
            options.broker_password_file,
        )
        flower_port = child_commands.choose_flower_port(asked) if options.flower else 0
        supervisor = self._supervisor(connection, flower_port)
        if self.signals.stopping:
            return
        with ExitStack() as stack:
            broker = stack.enter_context(closing(BrokerView(connection.broker)))
            view = stack.enter_context(connection.redis())
            try:
                supervisor.start(broker, self.signals)
                if not self.signals.stopping:
                    self._announce(connection, flower_port)
                    one = view if options.namespace else NamespacesView(view.client)
                    reader = StatusReader(one, broker)
                    stack.callback(reader.close)
                    watch(reader, supervisor, self.signals, self._check_redis)
            finally:
                _tell("stopping; press Ctrl-C again to stop at once")
                supervisor.stop(grace_s=options.grace, hurry=lambda: self.signals.hurried)

    def _supervisor(self, connection: Connection, flower_port: int) -> Supervisor:
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        env = {
            "TURNMILL_REDIS_URL": connection.redis_url,
            "TURNMILL_REDIS_PASSWORD_FILE": _path(connection.redis_password_file),
            "TURNMILL_BROKER_URL": connection.broker_url,
            "TURNMILL_BROKER_PASSWORD_FILE": _path(connection.broker_password_file),
            "TURNMILL_DATA_DIR": str(self.folder),
        }
        # Another `turnmill up` may use the same broker: no two nodes may have the same name.
        host = socket.gethostname() + ("" if self.server else f".{os.getpid()}")
        flower = child_commands.flower(port=flower_port, logs=logs, env=env)
        return Supervisor(
            child_commands.workers(self.options.workers, logs=logs, env=env, host=host),
            flower if flower_port else None,
            flower_port=flower_port,
            tell=_tell,
        )

    def _check_redis(self) -> None:
        if self.server and not self.server.alive:
            raise CommandFailed(
                f"redis-server ended; see the end of {self.server.directory / 'redis.log'}"
            )

    def _announce(self, connection: Connection, flower_port: int) -> None:
        lines = {"Redis": safe_url(connection.redis_url)}
        if connection.broker_url:
            lines["Broker"] = safe_url(connection.broker_url)
        if flower_port:
            lines["Flower"] = f"http://127.0.0.1:{flower_port}"
        lines |= {"Data": str(self.folder), "Logs": str(self.folder / "logs")}
        if self.server and not connection.broker_url:
            announce(self.folder, UpRunning(self.server.url, lines.get("Flower", "")))
        console = stdout()
        console.print("turnmill is up. Ctrl-C stops it and keeps the data.", style="bold green")
        for name, value in lines.items():
            console.print(f"  {name:<8}{clean(value)}", markup=False, soft_wrap=True)


def _path(file: Path | None) -> str:
    # Workers and Flower run in other folders.
    return str(file.expanduser().absolute()) if file else ""


def _tell(line: str) -> None:
    # On the console of the live line, which makes room for it.
    stdout().print(clean(line), markup=False, soft_wrap=True)
