"""The obvious design, to compare with: one Celery task per turn, the turn in the message."""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery

from turnmill_worker.tokens import count_message, counter_for

app = Celery("per_turn", broker=os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0"))
app.conf.update(
    task_ignore_result=True,
    worker_send_task_events=True,
    worker_prefetch_multiplier=8,
    task_default_queue="per_turn",
)
_clients: dict[int, Any] = {}


def _client() -> Any:
    pid = os.getpid()
    if pid not in _clients:
        _clients[pid] = redis.Redis.from_url(app.conf.broker_url)
    return _clients[pid]


@app.task(name="per_turn.count")
def count(session: str, seq: int, message: dict[str, Any]) -> int:
    """Store the turn and its exact count, and say whether a compaction would be wanted."""
    tokens = count_message(counter_for(), message)
    with _client().pipeline(transaction=True) as pipe:
        pipe.xadd(f"per-turn:{session}:log", {"turn": str(message)})
        pipe.hset(f"per-turn:{session}:counts", str(seq), tokens)
        pipe.hincrby(f"per-turn:{session}:meta", "tokens", tokens)
        pipe.incr("per-turn:done")
        pipe.execute()
    return tokens
