"""Questions of agents and answers of workers, in Redis."""

from __future__ import annotations

from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import ask_keys
from turnmill.contract.sealing import Secret
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.scripts import run, translated

ANSWER_MS = 60_000


class RedisQuestions:
    """Over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def take(self, ref: SessionRef, ask: str) -> bytes | None:
        """Take the question, so that nobody else gets it; None when it was taken or withdrawn."""
        with translated():
            body: bytes | None = self._redis.getdel(ask_keys(ref.namespace, ask).ask)
        return body

    def answer(self, ref: SessionRef, ask: str, body: bytes) -> None:
        """Store the answer for a minute."""
        keys = ask_keys(ref.namespace, ask)
        run(self._redis, "answer", keys, body=Secret(body), lifetime_ms=ANSWER_MS)

    def now_ms(self) -> int:
        """The time by the clock that turns have theirs from."""
        return redis_now_ms(self._redis)
