"""Runs the workers' scripts: the one place that loads them, and that translates Redis' errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any, Final

import redis

from turnmill.connection.transport import run_script, translate
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.scripts import load_script
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store import lua

AHEAD_MS: Final = 900_000
"""A time of Redis further ahead than this was written under another clock."""


def run(
    client: Any,
    name: str,
    keys: object,
    rest: Sequence[str | bytes | int] = (),
    /,
    **args: str | bytes | int,
) -> Any:
    """The reply of the script of this name; see ``Script.call`` for the others.

    Raises:
        TurnmillError: whatever redis-py raised, translated.
    """
    script = load_script(lua.__name__, name)
    return run_script(client, script, script.call(keys, rest, **args))


def queue(
    pipe: Any,
    name: str,
    keys: object,
    rest: Sequence[str] = (),
    /,
    **args: str | bytes | int,
) -> None:
    """Put the script into a pipeline, with its source: no reply says in time it is unknown."""
    script = load_script(lua.__name__, name)
    pipe.execute_command("EVAL", script.source, *script.call(keys, rest, **args))


def load_all() -> None:
    """Read all scripts as they are now.

    A script read later could be of a newer version, installed under running workers.
    """
    for script in resources.files(lua).iterdir():
        if script.name.endswith(".lua"):
            load_script(lua.__name__, script.name.removesuffix(".lua"))


@contextmanager
def translated() -> Iterator[None]:
    """Plain commands inside raise ``TurnmillError`` as scripts do."""
    try:
        yield
    except redis.RedisError as error:
        raise translate(error) from error


def keys_of(ref: SessionRef) -> SessionKeys:
    """The session's keys, as scripts name them."""
    return session_keys(ref.namespace, ref.session)
