"""Redis as clients and workers reach it: connections, scripts, its clock, and its errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import ExponentialBackoff

from turnmill.contract.errors import StoreFull, StoreUnavailable, TurnmillError
from turnmill.contract.scripts import Script

__all__ = [
    "ATTEMPTS",
    "MAX_CONNECTIONS",
    "attempt_s",
    "backoff",
    "connection_options",
    "new_id",
    "redis_now_ms",
    "run_script",
    "to_ms",
    "translate",
]

ATTEMPTS = 4
"""Tries of one call while the connection fails."""

MAX_CONNECTIONS = 64
"""Connections of one client; further callers wait for a free one."""


def connection_options(timeout_s: float) -> dict[str, Any]:
    """Socket limits so that ``ATTEMPTS`` tries and their pauses end within ``timeout_s``."""
    each = attempt_s(timeout_s)
    return {"socket_timeout": each, "socket_connect_timeout": each, "decode_responses": False}


def attempt_s(timeout_s: float) -> float:
    """How long one of ``ATTEMPTS`` tries may wait, for a connection or for a reply."""
    return 0.8 * timeout_s / ATTEMPTS


def backoff(timeout_s: float) -> ExponentialBackoff:
    """Pauses between the tries: at most a fifth of ``timeout_s`` together."""
    return ExponentialBackoff(cap=timeout_s / 20, base=timeout_s / 100)


def new_id() -> str:
    """An id for a call that may be sent twice, so that Redis acts on it once."""
    return os.urandom(16).hex()


def redis_now_ms(client: Any) -> int:
    """The time by Redis' clock, as scripts write it: clocks of clients and workers differ."""
    return to_ms(client.time())


def to_ms(time: tuple[int, int]) -> int:
    """Milliseconds from the reply to TIME."""
    seconds, micros = time
    return seconds * 1000 + micros // 1000


def run_script(client: Any, script: Script, words: Sequence[str | bytes | int]) -> Any:
    """The script's reply; sends the script's source if the server lacks it.

    Raises:
        TurnmillError: whatever redis-py raised, translated.
    """
    try:
        try:
            return client.execute_command("EVALSHA", script.sha, *words)
        except redis.exceptions.NoScriptError:
            return client.execute_command("EVAL", script.source, *words)
    except redis.RedisError as error:
        raise translate(error) from error


def translate(error: redis.RedisError) -> TurnmillError:
    """The typed error for what redis-py raised."""
    # Inside a script Redis 6.2 reports these as plain script errors: only the text tells.
    if isinstance(error, redis.OutOfMemoryError) or "OOM command not allowed" in str(error):
        return StoreFull("Redis is at maxmemory and refuses writes: raise maxmemory, or free some")
    kind = type(error).__name__
    unready = any(word in str(error) for word in ("READONLY", "MISCONF", "BUSY", "LOADING"))
    if unready or isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return StoreUnavailable(f"Redis cannot be reached or answered too late ({kind})")
    return TurnmillError(f"Redis refused the call ({kind}); `turnmill doctor` may say why")
