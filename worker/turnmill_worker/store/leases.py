"""Leases: the time-limited right to compact one session. They save duplicate cost; the version,
not the lease, makes commits safe.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SessionKeys
from turnmill.contract.names import Seq, SessionId

__all__ = ["RedisLease"]


class RedisLease:
    """A lease as a context manager: renewed while the block runs, released when it ends.

    A block that ends without ``release`` failed: the session is due again when the lease runs out.
    """

    def __init__(
        self, run: Callable[..., Any], keys: SessionKeys, session: SessionId, *, lease_ms: int
    ) -> None:
        self.owner = uuid.uuid4().hex
        self._run = run
        self._keys = keys
        self._session = session
        self._lease_ms = lease_ms
        self._held = False
        self._ended = threading.Event()

    def __enter__(self) -> Self | None:
        taken = self._run(
            "claim", self._keys, session=self._session, owner=self.owner, lease_ms=self._lease_ms
        )
        self._held = taken == 1
        if not self._held:
            return None
        threading.Thread(target=self._keep, name="turnmill-lease", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def release(self, *, counted_seq: Seq | None = None, again_s: float | None = None) -> bool:
        """Give it up; True when turns were counted since ``counted_seq`` and it is due at once.

        With ``again_s`` the session is due again after that many seconds.
        """
        self._ended.set()
        again_ms = -1 if again_s is None else int(again_s * 1000)
        reply = self._run(
            "release",
            self._keys,
            session=self._session,
            owner=self.owner,
            counted_seq=str(counted_seq or 0),
            again_ms=again_ms,
        )
        return bool(reply)

    def _keep(self) -> None:
        while not self._ended.wait(self._lease_ms / 3000):
            try:
                kept = self._run(
                    "renew",
                    self._keys,
                    session=self._session,
                    owner=self.owner,
                    lease_ms=self._lease_ms,
                )
            except TurnmillError:
                continue  # Redis may be back before the lease runs out; commit checks anyway
            if not kept:
                return
