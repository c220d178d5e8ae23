"""Repairs lost hints: whatever the backlog and the due lists show was missed is hinted again.

Every worker process runs a thread for it; a lease in Redis lets one of them sweep at a time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

import structlog

from turnmill.contract import jobs
from turnmill.contract.keys import NAMESPACES, SHARDS, SWEEP_LEASE, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.scripts import load_script
from turnmill_worker.ports import SessionRef
from turnmill_worker.store import lua

__all__ = ["SweepThread", "Sweeper"]

log = structlog.get_logger()

MOST = 1000
"""Hints per list and sweep."""

EXPIRY_EVERY = 16
"""Sweeps between two looks for expired sessions."""

EXPIRY_CHECKS = 32
"""Sessions per shard whose expiry is looked at then, at random: all have their turn."""


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
        self._passes = 0

    def run(self) -> int:
        """Hint what was missed in every namespace; returns how many hints were sent."""
        self._passes += 1
        names = [Namespace(name.decode()) for name in sorted(self._redis.smembers(NAMESPACES))]
        if self._passes % EXPIRY_EVERY == 0:
            for name in names:
                self._drop_expired(name)
        return sum(self._sweep(name) for name in names)

    def _sweep(self, namespace: Namespace) -> int:
        now_ms = int(time.time() * 1000)
        stale_ms = now_ms - int(self._stale_after_s * 1000)
        shards = [shard_keys(namespace, shard) for shard in range(SHARDS)]
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in shards:
                pipe.zrangebyscore(keys.backlog, "-inf", stale_ms, start=0, num=MOST)
                pipe.zrangebyscore(keys.due, "-inf", now_ms - 1, start=0, num=MOST)
            replies = pipe.execute()
        backlog = [name for reply in replies[0::2] for name in reply]
        due = [name for reply in replies[1::2] for name in reply]
        sent = self._send(namespace, jobs.ESTIMATE, backlog, also_waiting_in=())
        # A session handed on to a summarizer is due again too, until that job takes its lease.
        sent += self._send(namespace, jobs.COMPACT, due, also_waiting_in=(jobs.SUMMARIZE,))
        if sent:
            log.info("swept", namespace=namespace, backlog=len(backlog), due=len(due), hints=sent)
        return sent

    def _send(
        self, namespace: Namespace, task: str, names: list[bytes], *, also_waiting_in: Sequence[str]
    ) -> int:
        """Hint sessions, as far as messages still waiting cannot be the hints they had.

        Behind a slow or missing consumer hints are late, not lost: sending more would only fill
        the broker.
        """
        if not names:
            return 0
        waiting = sum(self._hints.waiting(queue) for queue in (task, *also_waiting_in))
        sent = 0
        for name in names[: max(min(len(names) - waiting, MOST), 0)]:
            if not self._hints.send(task, SessionRef(namespace, SessionId(name.decode()))):
                break  # the broker is down: the next sweep tries again
            sent += 1
        return sent

    def _drop_expired(self, namespace: Namespace) -> None:
        """Unlist sessions whose keys have expired, and the namespace when none is left."""
        shards = [shard_keys(namespace, shard) for shard in range(SHARDS)]
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in shards:
                pipe.zrandmember(keys.index, EXPIRY_CHECKS)
            found = [name for reply in pipe.execute() for name in reply]
            if not found:
                self._redis.srem(NAMESPACES, namespace)
                return
            script = load_script(lua.__name__, "unlist")
            for name in found:
                session = SessionId(name.decode())
                words = script.call(session_keys(namespace, session), session=session)
                pipe.execute_command("EVAL", script.source, *words)
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
