"""Repairs lost hints: whatever the backlog and the due lists show was missed is hinted again.

Every worker process runs a thread for it; a lease in Redis lets one of them sweep at a time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import redis
import structlog

from turnmill.contract import jobs
from turnmill.contract.keys import NAMESPACES, SHARDS, SWEEP_LEASE, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.scripts import load_script
from turnmill.transport import redis_now_ms
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store import lua

__all__ = ["SweepThread", "Sweeper"]

log = structlog.get_logger()

MOST = 1000
"""Hints per list and sweep."""

LONGEST_PAUSE_S = 3600.0
"""A session is hinted this often at least, however many messages wait."""

ARCHIVE_EVERY = 4
"""Sweeps between two looks for turns that wait for the archive: nobody waits for those."""

EXPIRY_EVERY = 16
"""Sweeps between two looks for expired sessions."""

EXPIRY_CHECKS = 32
"""Sessions per shard whose expiry is looked at then, at random: all have their turn."""


REST = 3
"""Times a pass took that the next one waits at least: a quarter of a core is enough for it."""


class SweepHints(Protocol):
    """What a sweep needs to publish."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint."""

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue."""


class Sweeper:
    """One pass over all namespaces' lists; its cost does not grow with idle sessions."""

    def __init__(
        self, client: Any, hints: SweepHints, *, stale_after_s: float, archive: bool = True
    ) -> None:
        self._redis = client
        self._archive = archive
        self._estimates = _Repeater(hints, jobs.ESTIMATE, first_pause_s=2 * stale_after_s)
        self._compacts = _Repeater(hints, jobs.COMPACT, first_pause_s=2 * stale_after_s)
        self._archives = _Repeater(hints, jobs.ARCHIVE, first_pause_s=2 * stale_after_s)
        self._forgets = _Repeater(hints, jobs.FORGET, first_pause_s=2 * stale_after_s)
        self._stale_after_s = stale_after_s
        self._passes = 0

    def run(self) -> int:
        """Hint what was missed in every namespace; returns how many hints were sent."""
        self._passes += 1
        now_ms = redis_now_ms(self._redis)
        names = [Namespace(name.decode()) for name in sorted(self._redis.smembers(NAMESPACES))]
        if self._passes % EXPIRY_EVERY == 0:
            for name in names:
                self._drop_expired(name)
        missed = [self._missed(name, now_ms) for name in names]
        backlog = [ref for stale, _ in missed for ref in stale]
        due = [ref for _, ripe in missed for ref in ripe]
        # A session handed on to a summarizer is due again too, until that job takes its lease.
        sent = self._estimates.send(backlog, (jobs.ESTIMATE,))
        sent += self._compacts.send(due, (jobs.COMPACT, jobs.SUMMARIZE))
        if self._passes % ARCHIVE_EVERY == 0:
            left = [self._unarchived(name, now_ms) for name in names]
            kept = [ref for late, _ in left for ref in late if self._archive]
            sent += self._archives.send(kept, (jobs.ARCHIVE,))
            sent += self._forgets.send([ref for _, gone in left for ref in gone], (jobs.FORGET,))
        if sent:
            log.info("swept", backlog=len(backlog), due=len(due), hints=sent)
        return sent

    def _unarchived(
        self, namespace: Namespace, now_ms: int
    ) -> tuple[list[SessionRef], list[SessionRef]]:
        """Sessions whose turns wait too long for the archive, and sessions to forget there."""
        stale_ms = now_ms - int(self._stale_after_s * 1000)
        with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                keys = shard_keys(namespace, shard)
                pipe.zrangebyscore(keys.unarchived, "-inf", stale_ms, start=0, num=MOST)
                pipe.zrangebyscore(keys.forgotten, "-inf", stale_ms, start=0, num=MOST)
            replies = pipe.execute()
        gone = [[each.partition(b":")[2] for each in reply] for reply in replies[1::2]]
        return _refs(namespace, replies[0::2]), _refs(namespace, gone)

    def _missed(
        self, namespace: Namespace, now_ms: int
    ) -> tuple[list[SessionRef], list[SessionRef]]:
        """Sessions waiting too long in the backlog, and sessions whose time to compact came."""
        stale_ms = now_ms - int(self._stale_after_s * 1000)
        with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                keys = shard_keys(namespace, shard)
                pipe.zrangebyscore(keys.backlog, "-inf", stale_ms, start=0, num=MOST)
                pipe.zrangebyscore(keys.due, "-inf", now_ms - 1, start=0, num=MOST)
            replies = pipe.execute()
        return _refs(namespace, replies[0::2]), _refs(namespace, replies[1::2])

    def _drop_expired(self, namespace: Namespace) -> None:
        """Unlist sessions whose keys have expired, and the namespace when none is left."""
        found = self._sample(namespace)
        if not found:
            if not self._owes_nothing(namespace):
                return
            self._redis.srem(NAMESPACES, namespace)
            if self._sample(namespace):  # pushed to between the two commands
                self._redis.sadd(NAMESPACES, namespace)
            return
        script = load_script(lua.__name__, "unlist")
        with self._redis.pipeline(transaction=False) as pipe:
            for ref in found:
                words = script.call(session_keys(namespace, ref.session), session=ref.session)
                pipe.execute_command("EVAL", script.source, *words)
            pipe.execute()

    def _sample(self, namespace: Namespace) -> list[SessionRef]:
        with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrandmember(shard_keys(namespace, shard).index, EXPIRY_CHECKS)
            return _refs(namespace, pipe.execute())

    def _owes_nothing(self, namespace: Namespace) -> bool:
        """Whether no session is still to be forgotten: in the archive, or where batches are."""
        with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.exists(shard_keys(namespace, shard).forgotten)
            return not any(pipe.execute())


def _refs(namespace: Namespace, replies: Sequence[Sequence[bytes]]) -> list[SessionRef]:
    return [SessionRef(namespace, SessionId(n.decode())) for reply in replies for n in reply]


class _Repeater:
    """Hints sessions that stay on a list, ever more rarely while messages wait in the queues.

    Behind a slow or missing consumer hints are late, not lost: repeating them at a steady rate
    would fill the broker and then the workers' time.
    """

    def __init__(self, hints: SweepHints, task: str, *, first_pause_s: float) -> None:
        self._hints = hints
        self._task = task
        self._first_pause_s = first_pause_s
        self._next: dict[SessionRef, tuple[float, float]] = {}

    def send(self, refs: Sequence[SessionRef], queues: Sequence[str]) -> int:
        """Hint those whose pause is over, or all when nothing waits; returns how many."""
        if not refs:
            self._next.clear()
            return 0
        now = time.monotonic()
        idle = not any(self._hints.waiting(queue) for queue in queues)
        paused = {ref: self._next[ref] for ref in refs if ref in self._next}
        ready = [ref for ref in refs if idle or paused.get(ref, (0.0, 0.0))[0] <= now]
        sent = 0
        for ref in ready[:MOST]:
            if not self._hints.send(self._task, ref):
                break  # the broker is down: the next sweep tries again
            _, pause = paused.get(ref, (0.0, self._first_pause_s / 2))
            pause = self._first_pause_s if idle else min(pause * 2, LONGEST_PAUSE_S)
            paused[ref] = (now + pause, pause)
            sent += 1
        self._next = paused
        return sent


class SweepThread:
    """Sweeps every ``interval_s``, as long as no other worker does.

    A pass costs some 130 commands per namespace: with very many of them it pauses for longer.
    """

    def __init__(self, sweeper: Sweeper, client: Any, *, interval_s: float) -> None:
        self._sweeper = sweeper
        self._redis = client
        self._interval_s = interval_s
        self._pause_s = interval_s
        self._owner = uuid.uuid4().hex.encode()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnmill-sweep", daemon=True)

    def start(self) -> None:
        """Begin sweeping."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass under way, and let another worker take over at once."""
        self._ended.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            try:
                if self._is_mine():
                    began = time.monotonic()
                    self._sweeper.run()
                    self._rest(time.monotonic() - began)
                else:
                    self._pause_s = self._interval_s
            except Exception as error:  # noqa: BLE001 - Redis or the broker is down; try again
                log.warning("sweep failed", error=type(error).__name__)
        with suppress(redis.RedisError):
            if self._redis.get(SWEEP_LEASE) == self._owner:
                self._redis.delete(SWEEP_LEASE)

    def _rest(self, took_s: float) -> None:
        """Pause until the next pass; nobody else begins one meanwhile."""
        self._pause_s = max(self._interval_s, REST * took_s)
        if self._redis.get(SWEEP_LEASE) == self._owner:
            self._redis.pexpire(SWEEP_LEASE, int(self._pause_s * 3000))

    def _is_mine(self) -> bool:
        # The same worker sweeps as long as it lives, because it remembers what it has hinted.
        hold_ms = int(self._pause_s * 3000)
        if self._redis.set(SWEEP_LEASE, self._owner, nx=True, px=hold_ms):
            return True
        if self._redis.get(SWEEP_LEASE) != self._owner:
            return False
        self._redis.pexpire(SWEEP_LEASE, hold_ms)
        return True
