"""The `turnmill up` that runs in a folder: what it says of itself, and who finds it there."""

from __future__ import annotations

import fcntl
import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

UP_DATA_DIR = Path("turnmill-data")
"""Where `turnmill up` keeps everything, unless told otherwise."""

UP_RECORD = "up.json"
"""In that folder: where what runs there is found."""


class UpRunning(NamedTuple):
    """What a `turnmill up` said when all of it answered; no password is in it."""

    redis_url: str
    flower_url: str


def announce(directory: Path, running: UpRunning) -> None:
    """Let other commands find it; whoever holds the lock may say so."""
    (directory / UP_RECORD).write_text(json.dumps(running._asdict()))


def running_in(directory: Path) -> UpRunning | None:
    """The `turnmill up` that runs there, is up, and has a Redis of its own; None for none."""
    try:
        with (directory / "up.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError, ValueError, TypeError):
            return UpRunning(**json.loads((directory / UP_RECORD).read_text()))
    except OSError:
        pass  # nobody has ever run there
    return None
