"""``turnmill up``: Redis, workers and Flower on this machine, in one foreground process tree."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import redis
import typer
from rich.live import Live
from rich.text import Text

from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.plural import count
from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local.children import (
    check_installed,
    check_port,
    choose_flower_port,
    choose_port,
    flower_child,
    tethered,
    worker_children,
)
from turnmill_cli.local.processes import (
    StopSignals,
    Supervisor,
    locked,
    stop_signals,
)
from turnmill_cli.options import (
    BrokerPasswordFile,
    BrokerUrl,
    Connection,
    RedisPasswordFile,
    setting,
)
from turnmill_cli.output import CommandFailed, clean, safe_url, stdout
from turnmill_cli.redis_view import NamespacesView
from turnmill_cli.running import UP_DATA_DIR, UpRunning, announce, redis_of, remember_redis

# --- the line that says how things are ------------------------------------------------------------


class StatusReader:
    """Reads the state of all namespaces; a few round trips a call, and one per queue."""

    def __init__(self, view: NamespacesView, broker: BrokerView) -> None:
        self._view = view
        self._broker = broker
        self._announced = view.commits()
        self._commits = 0
        self._freed = 0

    def line(self) -> str:
        """The state now, for a person."""
        try:
            for record in self._announced.heard():
                self._commits += 1
                self._freed += record["tokens_before"] - record["tokens_after"]
            sessions, backlog, due = self._view.counts()
        except redis.RedisError:
            return "Redis does not answer"
        # Zeros are left out: the line fits a narrow terminal while nothing waits.
        waits = "".join(f" · {name} {n:,}" for name, n in (("backlog", backlog), ("due", due)) if n)
        return (
            f"{count(sessions, 'session')} in {count(self._view.known, 'namespace')}{waits}"
            f"{self._tasks()}"
            f" · {count(self._commits, 'commit')}, {self._freed:,} tokens freed"
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._announced.close()

    def _tasks(self) -> str:
        try:
            queues = self._broker.waiting()
        except Exception:  # noqa: BLE001 - any failure of any broker: tried again at the next call
            self._broker.disconnect()
            return " · the broker does not answer"
        waiting = [f"{queue} {number:,}" for queue, number in queues.items() if number]
        return f" · tasks: {', '.join(waiting)}" if waiting else ""


TICK_S = 1.0
PLAIN_EVERY_S = 10.0
"""Between two lines, if the output is not a terminal, where one line is rewritten."""


def watch(
    reader: StatusReader,
    supervisor: Supervisor,
    signals: StopSignals,
    check_redis: Callable[[], None],
) -> None:
    """Supervise until told to stop, or until ``check_redis`` raises."""
    console = stdout()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    shown_at = -PLAIN_EVERY_S
    with live or nullcontext():
        while not signals.stopping:
            check_redis()
            supervisor.check()
            now = time.monotonic()
            if live:
                line = Text(_line(reader, supervisor))
                # Room for the ^C a terminal echoes: a line it breaks could not be rewritten.
                line.truncate(console.width - len("^C "), overflow="ellipsis")
                live.update(line, refresh=True)
            elif now - shown_at >= PLAIN_EVERY_S:
                console.print(_line(reader, supervisor), markup=False, soft_wrap=True)
                shown_at = now
            signals.sleep(TICK_S)


def _line(reader: StatusReader, supervisor: Supervisor) -> str:
    alive, of = supervisor.workers_alive
    return f"{alive}/{of} workers · {reader.line()}"


# --- turnmill up ----------------------------------------------------------------------------------

REDIS_PORT = 6379
MOST_WORKERS = 4
"""By default: a development machine has other things to do too."""

_TAKEN = (
    "Port 6379 was taken, perhaps by another Redis: that one is not touched, and is NOT the one "
    "above, which keeps its port. Commands in this folder find the one above by themselves; for "
    "agents, and in other folders: export TURNMILL_REDIS_URL={url}"
)

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
        typer.Option(min=1, max=65535, help="Port of the Redis it starts: the last one, or 6379."),
    ] = None
    flower: Annotated[bool, typer.Option(help="Run Flower, which shows the jobs.")] = True
    flower_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of Flower; 5555 if it is free."),
    ] = None
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that count and compact.")
    ] = min(os.cpu_count() or 1, MOST_WORKERS)
    metrics_port: Annotated[
        int,
        setting(
            "--metrics-port", "PORT", "The first worker's; each other has the next one.", panel=""
        ),
    ] = 0
    grace: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Time for tasks to finish at the end."),
    ] = 10.0


def up(options: UpOptions) -> None:
    """Run everything that turnmill needs until Ctrl-C: Redis, workers and Flower.

    The data stays in --data-dir. The workers serve all namespaces, and the status line counts them
    all. On Linux, nothing outlives this process, even if it is killed.
    """
    if options.redis_url and options.port:
        raise typer.BadParameter(
            "cannot be combined with --redis-url or TURNMILL_REDIS_URL", param_hint="--port"
        )
    check_installed(with_flower=options.flower)
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
        remember_redis(folder, "")
        yield None
        return
    server = EmbeddedRedis(
        folder / "redis",
        # Where agents look for it: a restart does not move it.
        port=choose_port(options.port, urlsplit(redis_of(folder)).port or REDIS_PORT, "--port"),
        # After a kill the old server may still be writing: the lock makes the new one wait for it.
        launcher=tethered(signal.SIGTERM, lock=folder / "redis.lock"),
    )
    server.start(within_s=REDIS_START_S)
    # Commands that were told no broker would take this Redis for it.
    remember_redis(folder, "" if options.broker_url else server.url)
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
            "default",
            None if self.server else options.redis_password_file,
            options.broker_password_file,
        )
        flower_port = choose_flower_port(asked) if options.flower else 0
        supervisor = self._supervisor(connection, flower_port)
        if self.signals.stopping:
            return
        with ExitStack() as stack:
            broker = stack.enter_context(closing(BrokerView(connection.broker)))
            view = stack.enter_context(connection.redis())
            try:
                supervisor.start(broker, self.signals)
                if not self.signals.stopping:
                    self._announce(connection, flower_port, supervisor.workers_alive[1])
                    reader = StatusReader(NamespacesView(view.client), broker)
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
        is_shared = not self.server or bool(connection.broker_url)
        host = socket.gethostname() + (f".{os.getpid()}" if is_shared else "")
        flower = flower_child(port=flower_port, logs=logs, env=env)
        workers = worker_children(
            self.options.workers,
            logs=logs,
            env=env,
            host=host,
            metrics_port=self.options.metrics_port,
        )
        if first := self.options.metrics_port:
            for port in range(first, first + len(workers)):
                check_port(port, option="--metrics-port")
        return Supervisor(
            workers,
            flower if flower_port else None,
            flower_port=flower_port,
            tell=_tell,
        )

    def _check_redis(self) -> None:
        if self.server and not self.server.alive:
            raise CommandFailed(
                f"redis-server ended; see the end of {self.server.directory / 'redis.log'}"
            )

    def _announce(self, connection: Connection, flower_port: int, workers: int) -> None:
        lines = {"Redis": safe_url(connection.redis_url)}
        if connection.broker_url:
            lines["Broker"] = safe_url(connection.broker_url)
        if flower_port:
            lines["Flower"] = f"http://127.0.0.1:{flower_port}"
        if first := self.options.metrics_port:
            last = first + workers - 1
            lines["Metrics"] = f"http://127.0.0.1:{first}/metrics, and so on to {last}"
        lines |= {"Data": str(self.folder), "Logs": str(self.folder / "logs")}
        if self.server and not connection.broker_url:
            announce(self.folder, UpRunning(self.server.url, lines.get("Flower", "")))
        console = stdout()
        console.print("turnmill is up. Ctrl-C stops it and keeps the data.", style="bold green")
        for name, value in lines.items():
            console.print(f"  {name:<8}{clean(value)}", markup=False, soft_wrap=True)
        if self.server and self.options.port is None and self.server.port != REDIS_PORT:
            console.print(_TAKEN.format(url=self.server.url), style="bold yellow", soft_wrap=True)


def _path(file: Path | None) -> str:
    # Workers and Flower run in other folders.
    return str(file.expanduser().absolute()) if file else ""


def _tell(line: str) -> None:
    # On the console of the live line, which makes room for it.
    stdout().print(clean(line), markup=False, soft_wrap=True)
