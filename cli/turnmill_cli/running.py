"""The `turnmill up` of a folder: what it says of itself, and who finds it there."""

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

_REDIS = "redis.url"
"""In that folder: where its Redis was last, and is again when `turnmill up` runs again."""


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


def remember_redis(directory: Path, url: str) -> None:
    """Let commands find the Redis of that folder, whether it runs or not; ``""`` for none."""
    (directory / _REDIS).write_text(url)


def redis_of(directory: Path) -> str:
    """The URL of the Redis that a `turnmill up` has started there, running or not; or ``""``."""
    with suppress(OSError):
        return (directory / _REDIS).read_text().strip()
    return ""
