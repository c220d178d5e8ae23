"""Sessions that wait for a summary, in Redis: whose turn it is, over all namespaces."""

from __future__ import annotations

from typing import Any, Final

from turnmill.contract.keys import WAITING
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.scripts import run

__all__ = ["RedisWaiting"]

AGEING_S: Final = 300.0
"""How much sooner a session without room comes than one with all of its room.

Room is a share from -1 (twice the hard limit) to 1: a session that has waited for twice as long
comes before all that come later, whatever room they have.
"""

TTL_MS: Final = 24 * 3600 * 1000
"""An entry that outlives its session is harmless; this bounds how many there are."""


class RedisWaiting:
    """The ``Waiting`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any, *, ageing_s: float = AGEING_S) -> None:
        self._redis = client
        self._ageing_ms = int(ageing_s * 1000)

    def add(self, ref: SessionRef, *, room: float) -> int:
        """Let the session wait, or update how much of its room is left; see ``Waiting``."""
        waiting: int = run(
            self._redis,
            "await_summary",
            WAITING,
            namespace=ref.namespace,
            session=ref.session,
            room=f"{room:.6f}",
            ageing_ms=self._ageing_ms,
            ttl_ms=TTL_MS,
        )
        return waiting

    def take(self) -> SessionRef | None:
        """The session whose turn it is; None when none waits."""
        reply = run(self._redis, "take", WAITING, ttl_ms=TTL_MS)
        if reply is None:
            return None
        namespace, session = (each.decode() for each in reply)
        return SessionRef(Namespace(namespace), SessionId(session))
