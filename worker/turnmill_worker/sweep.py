"""Repairs lost hints: whatever the backlog and the due lists show was missed is hinted again.

Every worker process runs a thread for it; a lease in Redis lets one of them sweep at a time.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any, Protocol

import structlog

from turnmill.contract import jobs
from turnmill.contract.keys import NAMESPACES, SHARDS, SWEEP_LEASE, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports import SessionRef

__all__ = ["SweepThread", "Sweeper"]

log = structlog.get_logger()

MOST = 1000
"""Hints per list and sweep."""

DEEP_QUEUE = 100
"""With this many messages waiting, hints are late rather than lost."""

PATIENCE = 30
"""How many times longer a session may wait before it is hinted again behind a deep queue."""

EXPIRED_CHECKS = 8
"""Sessions per shard and sweep whose expiry is looked at, the longest silent first."""


class SweepHints(Protocol):
    """What a sweep needs to publish."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint."""

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue."""


class Sweeper:
    """One pass over all namespaces' lists; its cost does not grow with idle sessions."""

    def __init__(self, client: Any, hints: SweepHints, *, stale_after_s: float) -> None:
        self._redis = client
        self._hints = hints
        self._stale_after_s = stale_after_s

    def run(self) -> int:
        """Hint what was missed in every namespace; returns how many hints were sent."""
        names = self._redis.smembers(NAMESPACES)
        return sum(self._sweep(Namespace(name.decode())) for name in sorted(names))

    def _sweep(self, namespace: Namespace) -> int:
        now_ms = int(time.time() * 1000)
        shards = [shard_keys(namespace, shard) for shard in range(SHARDS)]
        stale_ms = now_ms - self._patience_ms(jobs.ESTIMATE)
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in shards:
                pipe.zrangebyscore(keys.backlog, "-inf", stale_ms, start=0, num=MOST)
                pipe.zrangebyscore(keys.due, "-inf", now_ms - 1, start=0, num=MOST)
                pipe.zrange(keys.index, 0, EXPIRED_CHECKS - 1)
            replies = pipe.execute()
        backlog = [name for reply in replies[0::3] for name in reply][:MOST]
        due = [name for reply in replies[1::3] for name in reply][:MOST]
        self._drop_expired(namespace, [name for reply in replies[2::3] for name in reply])
        if due and self._hints.waiting(jobs.COMPACT) >= DEEP_QUEUE:
            due = []
        sent = self._send(namespace, jobs.ESTIMATE, backlog) + self._send(
            namespace, jobs.COMPACT, due
        )
        if sent:
            log.info("swept", namespace=namespace, backlog=len(backlog), due=len(due), hints=sent)
        return sent

    def _patience_ms(self, task: str) -> int:
        late = self._hints.waiting(task) >= DEEP_QUEUE
        return int(self._stale_after_s * 1000) * (PATIENCE if late else 1)

    def _send(self, namespace: Namespace, task: str, names: list[bytes]) -> int:
        sent = 0
        for name in names:
            if not self._hints.send(task, SessionRef(namespace, SessionId(name.decode()))):
                break  # the broker is down: the next sweep tries again
            sent += 1
        return sent

    def _drop_expired(self, namespace: Namespace, names: list[bytes]) -> None:
        keys = [session_keys(namespace, SessionId(name.decode())) for name in names]
        with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.exists(key.meta)
            alive = pipe.execute() if keys else []
            for key, name, lives in zip(keys, names, alive, strict=True):
                if not lives:
                    pipe.zrem(key.index, name)
            pipe.execute()


class SweepThread:
    """Sweeps every ``interval_s``, as long as no other worker does."""

    def __init__(self, sweeper: Sweeper, client: Any, *, interval_s: float) -> None:
        self._sweeper = sweeper
        self._redis = client
        self._interval_s = interval_s
        self._owner = uuid.uuid4().hex
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnmill-sweep", daemon=True)

    def start(self) -> None:
        """Begin sweeping."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass under way."""
        self._ended.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                if self._is_mine():
                    self._sweeper.run()
            except Exception as error:  # noqa: BLE001 - Redis or the broker is down; try again
                log.warning("sweep failed", error=type(error).__name__)

    def _is_mine(self) -> bool:
        # Held a little shorter than the interval, so that the holder usually keeps it.
        hold_ms = max(int(self._interval_s * 900), 1)
        return bool(self._redis.set(SWEEP_LEASE, self._owner, nx=True, px=hold_ms))
