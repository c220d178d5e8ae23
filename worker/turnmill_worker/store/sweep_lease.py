"""The sweep's lease in Redis: one worker at a time."""

from __future__ import annotations

import uuid
from typing import Any

from turnmill.contract.keys import SWEEP_LEASE
from turnmill_worker.store.scripts import translated

__all__ = ["RedisSweepLease"]


class RedisSweepLease:
    """The ``SweepLease`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client
        self._owner = uuid.uuid4().hex.encode()

    def take(self, *, hold_s: float) -> bool:
        """Take the lease, or extend this worker's own; whether this worker has it now."""
        if self.keep(hold_s=hold_s):
            return True
        with translated():
            taken = self._redis.set(SWEEP_LEASE, self._owner, nx=True, px=int(hold_s * 1000))
        return bool(taken)

    def keep(self, *, hold_s: float) -> bool:
        """Hold it for longer; False when it is not this worker's."""
        with translated():
            if self._redis.get(SWEEP_LEASE) != self._owner:
                return False
            self._redis.pexpire(SWEEP_LEASE, int(hold_s * 1000))
            return True

    def give_up(self) -> None:
        """Let another worker take over at once, if it is this one's."""
        with translated():
            if self._redis.get(SWEEP_LEASE) == self._owner:
                self._redis.delete(SWEEP_LEASE)
