"""The batches that sessions await their next summaries from, remembered in Redis."""

from __future__ import annotations

from typing import Any

import redis
from pydantic import ValidationError

from turnmill.contract.keys import session_keys
from turnmill.contract.scripts import load_script
from turnmill.transport import run_script, translate
from turnmill_worker.pipeline.batch import Noted
from turnmill_worker.ports.awaited_summary import Awaited
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.store import lua

__all__ = ["RedisBatchNotes"]

_LIFETIME_MS = 2 * 24 * 3600 * 1000
"""Longer than a batch may take, so that one which took too long can still be ended."""


class RedisBatchNotes:
    """The ``BatchNotes`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def note(self, ref: SessionRef, awaited: Awaited) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""
        note = awaited.model_dump_json()
        done = self._run(
            "note_batch", ref, epoch=awaited.epoch, note=note, lifetime_ms=_LIFETIME_MS
        )
        return bool(done)

    def noted(self, ref: SessionRef) -> Noted | None:
        """What is awaited, and for how long by now."""
        reply = self._run("noted_batch", ref)
        if reply is None:
            return None
        note, left_ms = reply
        # Its age by Redis' clock alone: workers' clocks differ.
        return Noted(_parsed(note), note, (_LIFETIME_MS - left_ms) / 1000)

    def drop(self, ref: SessionRef, noted: Noted, spent: Spent = NOTHING) -> bool:
        """No longer remember it; ``spent`` on it counts for the next commit. False: it was gone."""
        done = self._run(
            "drop_batch",
            ref,
            note=noted.note,
            calls=spent.calls,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            cost_usd="" if spent.cost_usd is None else repr(spent.cost_usd),
        )
        return bool(done)

    def abandons(self, ref: SessionRef) -> bool:
        """Whether there is one that a forgotten session of this one's shard awaited."""
        try:
            return bool(self._redis.exists(session_keys(ref.namespace, ref.session).abandoned))
        except redis.RedisError as error:
            raise translate(error) from error

    def abandoned(self, ref: SessionRef) -> Awaited | None:
        """One that a forgotten session awaited, of the sessions in this one's shard; only once."""
        note = self._run("abandoned_batch", ref)
        return None if note is None else _parsed(note)

    def _run(self, name: str, ref: SessionRef, **args: str | bytes | int) -> Any:
        script = load_script(lua.__name__, name)
        words = script.call(session_keys(ref.namespace, ref.session), **args)
        return run_script(self._redis, script, words)


def _parsed(note: bytes) -> Awaited:
    """The note; one of another release is of no session, and is ended like any that is stale."""
    try:
        return Awaited.model_validate_json(note)
    except ValidationError:
        return Awaited(batch="", file="", nonce="", model="", digest="")
