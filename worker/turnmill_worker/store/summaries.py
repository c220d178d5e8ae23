"""Sessions that wait for a summary: for their turn, over all namespaces, or for a batch."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from turnmill.contract.keys import WAITING
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports.protocols import AwaitedSummary, RememberedBatch
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.store.scripts import keys_of, run, translated

_LIFETIME_MS = 2 * 24 * 3600 * 1000
"""Longer than a batch may take, so that one which took too long can still be ended."""


class RedisBatchNotes:
    """The ``BatchNotes`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def remember(self, ref: SessionRef, awaited: AwaitedSummary) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""
        note = awaited.model_dump_json(by_alias=True)
        done = self._run(
            "note_batch", ref, epoch=awaited.epoch, note=note, lifetime_ms=_LIFETIME_MS
        )
        return bool(done)

    def remembered(self, ref: SessionRef) -> RememberedBatch | None:
        """The awaited batch, and for how long it has been awaited."""
        reply = self._run("noted_batch", ref)
        if reply is None:
            return None
        note, left_ms = reply
        # Its age by Redis' clock alone: workers' clocks differ.
        return RememberedBatch(_parsed(note), note, (_LIFETIME_MS - left_ms) / 1000)

    def drop(self, ref: SessionRef, batch: RememberedBatch, spent: Spent = NOTHING) -> bool:
        """Drop the note; what was ``spent`` counts for the next commit. False when it was gone."""
        done = self._run(
            "drop_batch",
            ref,
            note=batch.note,
            model=batch.awaited.model,
            calls=spent.calls,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            cost_usd="" if spent.cost_usd is None else repr(spent.cost_usd),
        )
        return bool(done)

    def has_orphan(self, ref: SessionRef) -> bool:
        """Whether a forgotten session of this session's shard awaited a batch."""
        with translated():
            return bool(self._redis.exists(keys_of(ref).abandoned))

    def take_orphan(self, ref: SessionRef) -> AwaitedSummary | None:
        """Take a batch that a forgotten session of this session's shard awaited; each only once."""
        note = self._run("take_abandoned_batch", ref)
        return None if note is None else _parsed(note)

    def _run(self, name: str, ref: SessionRef, **args: str | bytes | int) -> Any:
        return run(self._redis, name, keys_of(ref), **args)


def _parsed(note: bytes) -> AwaitedSummary:
    """The note; one of another release fits no session, and is ended like a stale one."""
    try:
        return AwaitedSummary.model_validate_json(note)
    except ValidationError:
        return AwaitedSummary(batch="", file="", nonce="", model="", digest="")


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
