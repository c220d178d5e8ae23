"""Redis, workers and Flower as child processes: started, watched, started again, ended in order."""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnmill.connection.embedded import EmbeddedRedis
from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local.children import (
    Child,
    ChildSpec,
    check_installed,
    choose_flower_port,
    end,
    flower_child,
    worker_children,
)
from turnmill_cli.output import CommandFailed, print_note
from turnmill_cli.running import UP_RECORD

# --- Ctrl-C, SIGTERM and SIGHUP as a flag, so that all ends in its own order ----------------------

SLICE_S = 0.1


class StopSignals:
    """How many signals to stop have come: one means stop, two mean at once."""

    count = 0

    @property
    def stopping(self) -> bool:
        """Whether to stop."""
        return self.count > 0

    @property
    def hurried(self) -> bool:
        """Whether to stop without waiting for anyone."""
        return self.count > 1

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until told to stop."""
        deadline = time.monotonic() + seconds
        # In slices and not on an Event: a handler may not take the lock its own thread holds.
        while not self.stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, SLICE_S))


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """The signals that come while the block runs; they do not end the process."""
    seen = StopSignals()

    def note(_number: int, _frame: object) -> None:
        seen.count += 1

    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {each: signal.signal(each, note) for each in stopping}
    try:
        yield seen
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


# --- all of them ----------------------------------------------------------------------------------

START_S = 90.0
"""How long workers and Flower may take to answer."""

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Before a dead child's next start; the last one again and again."""

STEADY_S = 60.0
"""After running so long, a child's next death counts as its first."""

FLOWER_GRACE_S = 5.0


class Supervisor:
    """The children of one `turnmill up`; call it from the main thread only (see tether).

    Args:
        flower: None for none; its port is where it is asked whether it answers.
        tell: takes a line for the person at the terminal.
    """

    def __init__(
        self,
        workers: Sequence[ChildSpec],
        flower: ChildSpec | None,
        *,
        flower_port: int,
        tell: Callable[[str], None],
    ) -> None:
        self._workers = [Child(spec) for spec in workers]
        self._flower = [Child(flower)] if flower else []
        self._flower_port = flower_port
        self._tell = tell
        self._deaths: dict[str, int] = {}
        self._again_at: dict[str, float] = {}

    @property
    def dead(self) -> list[str]:
        """The names of the children that have ended."""
        return [child.spec.name for child in self._all() if not child.alive]

    @property
    def workers_alive(self) -> tuple[int, int]:
        """How many workers run, of how many."""
        return sum(child.alive for child in self._workers), len(self._workers)

    def start(self, broker: BrokerView, signals: StopSignals) -> None:
        """Start all, and return when all answer or when told to stop.

        Raises:
            CommandFailed: one ended, or did not answer in time; says where its log is.
        """
        for child in self._all():
            child.start()
        deadline = time.monotonic() + START_S
        silent = self._silent(broker)
        while silent and not signals.stopping:
            for child in self._all():
                if not child.alive:
                    raise CommandFailed(f"{_ended(child)}: {child.last_line()}")
            if time.monotonic() > deadline:
                raise CommandFailed(f"{silent[0].spec.name} does not answer; {_log(silent[0])}")
            signals.sleep(0.2)
            silent = self._silent(broker)

    def check(self) -> None:
        """Start again what has died, a little later each time."""
        now = time.monotonic()
        for child in self._all():
            name = child.spec.name
            if child.alive:
                continue
            if name not in self._again_at:
                pause = self._pause(child, now)
                self._again_at[name] = now + pause
                self._tell(f"{_ended(child)}; starting it again in {pause:.0f} s")
            elif now >= self._again_at[name]:
                del self._again_at[name]
                child.start()

    def stop(self, *, grace_s: float, hurry: Callable[[], bool]) -> None:
        """End Flower, then the workers: warmly, and after the grace by force."""
        killed = end(self._flower, grace_s=FLOWER_GRACE_S, hurry=hurry)
        killed += end(self._workers, grace_s=grace_s, hurry=hurry)
        for name in killed:
            self._tell(f"{name} did not end in time and was killed")

    def _all(self) -> list[Child]:
        return [*self._workers, *self._flower]

    def _pause(self, child: Child, now: float) -> float:
        name = child.spec.name
        deaths = 0 if now - child.started_at > STEADY_S else self._deaths.get(name, 0)
        self._deaths[name] = deaths + 1
        return PAUSES_S[min(deaths, len(PAUSES_S) - 1)]

    def _silent(self, broker: BrokerView) -> list[Child]:
        try:
            answering = broker.answering([child.spec.node for child in self._workers])
        except Exception:  # noqa: BLE001 - any broker's any failure: asked again until the deadline
            answering = set()
        silent = [child for child in self._workers if child.spec.node not in answering]
        if self._flower and not _answers(self._flower_port):
            silent += self._flower
        return silent


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _ended(child: Child) -> str:
    code = child.exit_code or 0
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{child.spec.name} ended ({how}; {_log(child)})"


def _log(child: Child) -> str:
    return f"see the end of {child.spec.log}"


# --- a pipeline for the length of a block ---------------------------------------------------------

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
    check_installed(with_flower=flower)
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
        port = choose_flower_port(None) if flower else 0
        supervisor = Supervisor(
            worker_children(workers, logs=folder, env=env, host=socket.gethostname()),
            flower_child(port=port, logs=folder, env=env) if flower else None,
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


# --- one `turnmill up` per data directory ---------------------------------------------------------


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the directory for this process; the lock ends with it, however it ends.

    Raises:
        CommandFailed: another process has it, or it cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "up.lock").open("a+")
    except OSError as error:
        raise CommandFailed(f"data directory {directory}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise CommandFailed(
                f"{directory} is in use by another `turnmill up` (process {owner}): stop it, or "
                "choose another --data-dir"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        # What one that was killed said of itself.
        (directory / UP_RECORD).unlink(missing_ok=True)
        try:
            yield
        finally:
            (directory / UP_RECORD).unlink(missing_ok=True)
