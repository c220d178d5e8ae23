"""The whole pipeline as processes of one's own, for the length of a block."""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnmill.connection.embedded import EmbeddedRedis
from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local import child_commands
from turnmill_cli.local.stop_signals import StopSignals
from turnmill_cli.local.supervisor import Supervisor
from turnmill_cli.output import print_note

__all__ = ["LocalPipeline", "local_pipeline"]

END_WITHIN_S = 20.0
PING_S = 0.5


PASSWORD_FILES = [f"TURNMILL_{of}_PASSWORD_FILE" for of in ("REDIS", "BROKER", "ARCHIVE")]
"""Variables about other servers than those that are started here."""


@dataclass(frozen=True, slots=True)
class LocalPipeline:
    """A running pipeline.

    Attributes:
        redis_url: the Redis of its sessions, and its broker.
        supervisor: of its workers and Flower; None for a pipeline that was there before.
        flower_url: where Flower listens, or ``""``.
    """

    redis_url: str
    supervisor: Supervisor | None = None
    flower_url: str = ""

    @property
    def dead(self) -> list[str]:
        """The names of the processes that have ended by themselves."""
        return self.supervisor.dead if self.supervisor else []


@contextmanager
def local_pipeline(*, workers: int, flower: bool = False) -> Iterator[LocalPipeline]:
    """Redis, workers and Flower in a temporary directory, ready to work; all end with the block.

    They also end when SIGTERM ends the block: no process may outlive the one that started it.

    Raises:
        CommandFailed: something is not installed, or a worker did not start.
        StoreUnavailable: there is no redis-server, or it did not start.
    """
    child_commands.check_installed(with_flower=flower)
    with ExitStack() as stack:
        stack.enter_context(_sigterm_ends_the_block())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turnmill-")))
        redis = stack.enter_context(EmbeddedRedis(folder / "redis"))
        env = {
            "TURNMILL_REDIS_URL": redis.url,
            "TURNMILL_BROKER_URL": redis.url,
            # An archive that ends with the rest, whatever the environment says of another.
            "TURNMILL_DATA_DIR": str(folder / "data"),
            "TURNMILL_ARCHIVE_URL": "",
            **dict.fromkeys(PASSWORD_FILES, ""),
        }
        port = child_commands.choose_flower_port(None) if flower else 0
        supervisor = Supervisor(
            child_commands.workers(workers, logs=folder, env=env, host=socket.gethostname()),
            child_commands.flower(port=port, logs=folder, env=env) if flower else None,
            flower_port=port,
            tell=print_note,
        )
        stack.callback(supervisor.stop, grace_s=END_WITHIN_S, hurry=lambda: False)
        if workers:
            broker = stack.enter_context(closing(BrokerView(redis.url, timeout_s=PING_S)))
            supervisor.start(broker, StopSignals())
        yield LocalPipeline(redis.url, supervisor, f"http://127.0.0.1:{port}" if port else "")


@contextmanager
def _sigterm_ends_the_block() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
