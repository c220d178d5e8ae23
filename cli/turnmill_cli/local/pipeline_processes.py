"""The whole pipeline as processes of one's own, for the length of a block."""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from turnmill.embedded_redis import EmbeddedRedis
from turnmill_cli.local import child_commands as specs
from turnmill_cli.local.child_process import Child, end
from turnmill_cli.output import CommandFailed

__all__ = ["LocalPipeline", "local_pipeline"]

READY_WITHIN_S = 60.0
END_WITHIN_S = 20.0
FLOWER_PORT = 5555


@dataclass(frozen=True, slots=True)
class LocalPipeline:
    """A running pipeline.

    Attributes:
        redis_url: its state store and broker.
        children: its workers, and Flower.
        flower_url: where Flower listens, or ``""``.
    """

    redis_url: str
    children: tuple[Child, ...] = ()
    flower_url: str = ""

    @property
    def dead(self) -> list[str]:
        """The names of the processes that have ended by themselves."""
        return [child.spec.name for child in self.children if not child.alive]


@contextmanager
def local_pipeline(*, workers: int, flower: bool = False) -> Iterator[LocalPipeline]:
    """Redis, workers and Flower in a temporary directory, ready to work; all end with the block.

    Also when SIGTERM ends the block: processes must not outlive the one that started them.

    Raises:
        CommandFailed: something is not installed, or a worker did not start.
        StoreUnavailable: there is no redis-server, or it did not start.
    """
    specs.check_installed(with_flower=flower)
    with ExitStack() as stack:
        stack.enter_context(_sigterm_unwinds())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turnmill-")))
        redis = stack.enter_context(EmbeddedRedis(folder / "redis"))
        env = {
            "TURNMILL_REDIS_URL": redis.url,
            "TURNMILL_BROKER_URL": redis.url,
            # An archive that ends with the rest, whatever the environment says of another.
            "TURNMILL_DATA_DIR": str(folder / "data"),
            "TURNMILL_ARCHIVE_URL": "",
        }
        commands = []
        if workers:
            host = socket.gethostname()
            commands = specs.workers(number=workers, logs=folder, env=env, host=host)
        port = 0
        if flower:
            port = specs.choose_port(None, FLOWER_PORT, "--flower-port")
            commands.append(specs.flower(port=port, logs=folder, env=env))
        children = tuple(Child(spec) for spec in commands)
        stack.callback(end, children, grace_s=END_WITHIN_S, hurry=lambda: False)
        for child in children:
            child.start()
        _wait_until_ready([child for child in children if child.spec.node])
        yield LocalPipeline(redis.url, children, f"http://127.0.0.1:{port}" if port else "")


def _wait_until_ready(workers: Sequence[Child]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    for worker in workers:
        while " ready." not in worker.spec.log.read_text(errors="replace"):
            if not worker.alive:
                raise CommandFailed(f"{worker.spec.name} did not start: {worker.last_line()}")
            if time.monotonic() > deadline:
                raise CommandFailed(f"{worker.spec.name} was not ready in {READY_WITHIN_S:.0f} s")
            time.sleep(0.05)


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """SIGTERM raises SystemExit inside the block, where signals can be handled at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what handlers are given
    sys.exit(128 + signum)
