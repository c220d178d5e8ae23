"""One `turnmill up` per data directory, and where the one that runs there can be reached."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from turnmill_cli.output import CommandFailed

__all__ = ["UpRunning", "announce", "locked", "running_in"]

_PLACES = "up.json"


class UpRunning(NamedTuple):
    """What a `turnmill up` said when all of it answered; no password is in it."""

    redis_url: str
    flower_url: str


def announce(directory: Path, running: UpRunning) -> None:
    """Let other commands find it; whoever holds the lock may say so."""
    (directory / _PLACES).write_text(json.dumps(running._asdict()))


def running_in(directory: Path) -> UpRunning | None:
    """The `turnmill up` that runs there, is up, and has a Redis of its own; None for none."""
    try:
        with (directory / "up.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError, ValueError, TypeError):
            return UpRunning(**json.loads((directory / _PLACES).read_text()))
    except OSError:
        pass  # nobody has ever run there
    return None


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
        (directory / _PLACES).unlink(missing_ok=True)
        try:
            yield
        finally:
            (directory / _PLACES).unlink(missing_ok=True)
