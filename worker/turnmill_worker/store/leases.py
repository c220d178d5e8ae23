"""Leases: the time-limited right to compact one session, and the one to sweep.

They save duplicate cost; the version, not the lease, makes commits safe.
"""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from turnmill.contract.context import Usage
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SWEEP_LEASE, SessionKeys
from turnmill.contract.names import SessionId
from turnmill.contract.results import Waits
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.ports.protocols import BatchLeft, Refusal
from turnmill_worker.ports.values import FIRST_PAUSE_S
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.store.scripts import AHEAD_MS, run, translated

_LOOK_EVERY_S: Final = 0.1

_REFUSALS: Final[dict[int, Refusal]] = {0: "leased", -1: "unknown", -2: "deferred", -3: "parked"}


class RedisLease:
    """A lease as a context manager: renewed while the block runs.

    A block that ends with an error gives it up. One that ends otherwise, without ``release``, was
    killed: the session is due again when the lease runs out.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        keys: SessionKeys,
        session: SessionId,
        *,
        lease_ms: int,
        forced: bool = False,
        patience_s: float = 0.0,
    ) -> None:
        self.refusal: Refusal = "leased"
        self.batches: frozenset[BatchLeft] = frozenset()
        self._forced = forced
        self._patience_s = patience_s
        self.owner = uuid.uuid4().hex
        self._run = run
        self._keys = keys
        self._session = session
        self._lease_ms = lease_ms
        self._ended = threading.Event()

    def __enter__(self) -> Self | None:
        deadline = time.monotonic() + self._patience_s
        while (taken := self._claim()) == 0 and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        if taken in _REFUSALS:
            self.refusal = _REFUSALS[taken]
            return None
        threading.Thread(target=self._keep, name="turnmill-lease", daemon=True).start()
        return self

    def _claim(self) -> int:
        """1 when it is ours now, or a refusal."""
        taken, awaits, abandons = self._run(
            "claim",
            self._keys,
            session=self._session,
            owner=self.owner,
            lease_ms=self._lease_ms,
            ahead_ms=AHEAD_MS,
            forced=int(self._forced),
        )
        left: list[tuple[BatchLeft, int]] = [("own", awaits), ("orphaned", abandons)]
        self.batches = frozenset(name for name, there in left if there)
        return int(taken)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended.is_set() and isinstance(error, Exception):
            with suppress(TurnmillError):  # then it runs out
                self.retry(after_s=FIRST_PAUSE_S)  # unless the count of failures says later
        self._ended.set()

    def release(
        self, seen: Snapshot, *, spent: Spent | None = None, idle_s: float | None = None
    ) -> bool:
        """Give the lease up, nothing done; True when the session changed and is due at once."""
        return self._release(seen, spent=spent, idle_ms=math.ceil((idle_s or 0.0) * 1000))

    def put_off(self, seen: Snapshot, *, until_tokens: int, spent: Spent | None = None) -> bool:
        """As ``release``, and the session is not due again below ``until_tokens``."""
        below = until_tokens - Usage.REPLY - 1
        return self._release(seen, put_off=until_tokens, spent=spent, below=below)

    def retry(
        self,
        *,
        after_s: float,
        spent: Spent | None = None,
        stale: bool = False,
        waits: Waits | None = None,
    ) -> None:
        """Give the lease up; the session is due again after that many seconds."""
        self._release(again_ms=int(after_s * 1000), spent=spent, stale=stale, waits=waits)

    def defer(
        self, seen: Snapshot, *, after_s: float, spent: Spent, failed: Sequence[str] = ()
    ) -> bool:
        """As ``retry``, to wait for a model; True when there is no room to: it is due at once."""
        return self._release(
            seen,
            again_ms=int(after_s * 1000),
            spent=spent,
            waits="model",
            why=",".join(failed),
            below=max(seen.limits.urgent - Usage.REPLY, 0),
        )

    def _release(  # noqa: PLR0913 - what the script is told
        self,
        seen: Snapshot | None = None,
        *,
        again_ms: int = -1,
        idle_ms: int = 0,
        put_off: int = 0,
        spent: Spent | None = None,
        stale: bool = False,
        waits: Waits | None = None,
        why: str = "",
        below: int = -1,
    ) -> bool:
        self._ended.set()
        newest, newest_chain = seen.newest if seen else ("", "")
        reply = self._run(
            "release",
            self._keys,
            session=self._session,
            owner=self.owner,
            counted_seq=str(seen.counted_seq) if seen else "",
            revision=seen.revision if seen else "",
            newest=newest,
            newest_chain=newest_chain,
            again_ms=again_ms,
            idle_ms=idle_ms,
            put_off=put_off,
            spent="" if spent in (None, NOTHING) else json.dumps(asdict(spent)),
            stale=int(stale),
            waits=waits or "",
            why=why,
            below=below,
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


class SweepKeys(NamedTuple):
    """The key of the lease, as the script names it."""

    sweep: str = SWEEP_LEASE


class RedisSweepLease:
    """The right to sweep, one worker's at a time."""

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
