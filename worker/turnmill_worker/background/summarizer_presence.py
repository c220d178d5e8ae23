"""Workers of the queue ``summarize`` say that they are there, and whether they can ask a model.

Without a key they write extractive summaries, and nobody would know before reading one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import redis
import structlog

from turnmill.contract.codec import encode_json
from turnmill.contract.keys import SUMMARIZERS, SUMMARIZERS_MS
from turnmill.transport import redis_now_ms

__all__ = ["Announcement"]

log = structlog.get_logger()

EVERY_S = 15.0


class Announcement:
    """One worker's, repeated by a thread as long as it runs."""

    def __init__(self, client: Any, node: str, *, problem: str, every_s: float = EVERY_S) -> None:
        """``problem`` is why it cannot ask a model, or ``""``."""
        self._redis = client
        self._every_s = every_s
        self._entry = encode_json({"node": node, **({"problem": problem} if problem else {})})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnmill-announce", daemon=True)

    def start(self) -> None:
        """Begin to repeat it."""
        self._thread.start()

    def stop(self) -> None:
        """Take it back: the worker leaves."""
        self._ended.set()
        self._thread.join(timeout=5)
        with suppress(redis.RedisError):
            self._redis.zrem(SUMMARIZERS, self._entry)

    def _run(self) -> None:
        was_heard = True
        while True:
            try:
                self._announce()
                was_heard = True
            except redis.RedisError as error:
                if was_heard:  # else every few seconds of an outage
                    log.warning("not announced", error=type(error).__name__)
                was_heard = False
            if self._ended.wait(self._every_s):
                return

    def _announce(self) -> None:
        now = redis_now_ms(self._redis)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(SUMMARIZERS, {self._entry: now})
            pipe.zremrangebyscore(SUMMARIZERS, "-inf", now - SUMMARIZERS_MS)
            pipe.pexpire(SUMMARIZERS, SUMMARIZERS_MS)
            pipe.execute()
