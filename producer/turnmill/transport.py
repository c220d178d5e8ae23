"""Connections to Redis as clients and workers make them, and how they run a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import ExponentialBackoff

from turnmill.commands import translate
from turnmill.contract.scripts import Script
from turnmill.wake import CeleryWaker, SilentWaker, Waker

__all__ = [
    "ATTEMPTS",
    "MAX_CONNECTIONS",
    "backoff",
    "connection_options",
    "redis_now_ms",
    "run_script",
    "waker_for",
]

ATTEMPTS = 4


MAX_CONNECTIONS = 64


def connection_options(timeout_s: float) -> dict[str, Any]:
    """Socket limits so that ``ATTEMPTS`` tries and their pauses end within ``timeout_s``."""
    each = 0.8 * timeout_s / ATTEMPTS
    return {"socket_timeout": each, "socket_connect_timeout": each, "decode_responses": False}


def backoff(timeout_s: float) -> ExponentialBackoff:
    """Pauses between the tries: at most a fifth of ``timeout_s`` together."""
    return ExponentialBackoff(cap=timeout_s / 20, base=timeout_s / 100)


def redis_now_ms(client: Any) -> int:
    """The time by Redis' clock, as scripts write it: those of clients and workers differ."""
    seconds, micros = client.time()
    return int(seconds * 1000 + micros // 1000)


def run_script(client: Any, script: Script, words: Sequence[str | bytes | int]) -> Any:
    """The script's reply, sending its source where the server does not have it.

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


def waker_for(redis_url: object, broker: str | Waker | None) -> Waker:
    """The waker a client uses: the one given, one for the broker's URL, or for the same Redis."""
    if broker is None:
        return CeleryWaker(redis_url) if isinstance(redis_url, str) else SilentWaker()
    return CeleryWaker(broker) if isinstance(broker, str) else broker
