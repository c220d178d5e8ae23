"""Leases: the time-limited right to compact one session.

They save duplicate cost; the version, not the lease, makes commits safe.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SessionKeys
from turnmill.contract.names import SessionId
from turnmill_worker.compaction.snapshot import Snapshot

__all__ = ["RedisLease"]

_LOOK_EVERY_S = 0.1
"""While somebody else has it."""


class RedisLease:
    """A lease as a context manager: renewed while the block runs, released when it ends.

    A block that ends without ``release`` failed: the session is due again when the lease runs out.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        keys: SessionKeys,
        session: SessionId,
        *,
        lease_ms: int,
        patience_s: float = 0.0,
    ) -> None:
        self.owner = uuid.uuid4().hex
        self._run = run
        self._keys = keys
        self._session = session
        self._lease_ms = lease_ms
        self._patience_s = patience_s
        self._held = False
        self._ended = threading.Event()

    def __enter__(self) -> Self | None:
        deadline = time.monotonic() + self._patience_s
        while (taken := self._claim()) == 0 and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        self._held = taken == 1
        if not self._held:
            return None
        threading.Thread(target=self._keep, name="turnmill-lease", daemon=True).start()
        return self

    def _claim(self) -> int:
        """1 when it is ours now, 0 when somebody has it, -1 when there is no such session."""
        return int(
            self._run(
                "claim",
                self._keys,
                session=self._session,
                owner=self.owner,
                lease_ms=self._lease_ms,
            )
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def release(self, seen: Snapshot) -> bool:
        """Give it up, nothing to do; True when the session changed since, and is due at once."""
        return self._release(seen.counted_seq, seen.settings, -1)

    def put_off(self, seen: Snapshot, *, until_tokens: int) -> bool:
        """As ``release``; and the session is not due again below so many tokens."""
        return self._release(seen.counted_seq, seen.settings, -1, until_tokens)

    def retry(self, *, after_s: float) -> None:
        """Give it up; the session is due again after that many seconds."""
        self._release(0, "", int(after_s * 1000))

    def _release(self, counted_seq: int, settings: str, again_ms: int, put_off: int = 0) -> bool:
        self._ended.set()
        reply = self._run(
            "release",
            self._keys,
            session=self._session,
            owner=self.owner,
            counted_seq=str(counted_seq),
            settings=settings,
            again_ms=again_ms,
            put_off=put_off,
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
