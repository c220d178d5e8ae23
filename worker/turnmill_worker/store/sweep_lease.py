"""The sweep's lease in Redis: one worker at a time."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from turnmill.contract.keys import SWEEP_LEASE
from turnmill_worker.store.scripts import AHEAD_MS, run, translated

__all__ = ["RedisSweepLease", "SweepKeys"]


class SweepKeys(NamedTuple):
    """The key of the lease, as the script names it."""

    sweep: str = SWEEP_LEASE


class RedisSweepLease:
    """The ``SweepLease`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client
        self._owner = uuid.uuid4().hex.encode()

    def take(self, *, hold_s: float) -> bool:
        """Take the lease, or extend this worker's own; whether this worker has it now."""
        return self._hold(hold_s, is_new=True)

    def keep(self, *, hold_s: float) -> bool:
        """Hold it for longer; False when it is not this worker's."""
        return self._hold(hold_s, is_new=False)

    def _hold(self, hold_s: float, *, is_new: bool) -> bool:
        held = run(
            self._redis,
            "hold_sweep",
            SweepKeys(),
            owner=self._owner,
            hold_ms=int(hold_s * 1000),
            ahead_ms=AHEAD_MS,
            is_new=int(is_new),
        )
        return bool(held)

    def give_up(self) -> None:
        """Let another worker take over at once, if it is this one's."""
        with translated():
            if self._redis.get(SWEEP_LEASE) == self._owner:
                self._redis.delete(SWEEP_LEASE)
