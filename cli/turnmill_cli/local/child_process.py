"""One child process: started tethered, its output in a log, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turnmill_cli.local import tether

__all__ = ["Child", "ChildSpec", "end", "tethered"]


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
