"""One `turnmill up` per data directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnmill_cli.output import CommandFailed

__all__ = ["locked"]


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
        yield
