"""Sessions in Redis, as the pipeline sees them: loads values, runs scripts, holds no logic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import redis

from turnmill.commands import translate
from turnmill.context_view import LogEntry, decode_turns
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.keys import SessionKeys, commits_channel, session_keys
from turnmill.contract.names import Seq
from turnmill.contract.outcomes import Compaction
from turnmill.contract.policy import Policy
from turnmill.contract.scripts import load_script
from turnmill.transport import run_script
from turnmill_worker.compaction.ledger.budget import up_to
from turnmill_worker.compaction.ledger.facts import Fact
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.tally import Tally, images, interactions
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.ports.values import (
    Committed,
    CountedTurn,
    Failed,
    Recorded,
    SessionRef,
    Uncounted,
    UncountedTurn,
    after_drain,
)
from turnmill_worker.spending import NOTHING, Spent, Tried
from turnmill_worker.store import lua
from turnmill_worker.store.leases import RedisLease
from turnmill_worker.store.outgoing import left_entry

__all__ = ["RedisSessions"]

KEEP_RECORDS = 1000
"""Compaction records kept per session in Redis."""

FIRST_PAUSE_MS = 5_000
LONGEST_PAUSE_MS = 300_000
"""When a session whose job failed is due again: doubled with each failure in a row."""


class RedisSessions:
    """The ``Sessions`` port over a redis-py client that does not decode responses."""

    def __init__(
        self,
        client: Any,
        *,
        lease_s: float = 30.0,
        patience_s: float = 0.0,
        archive: Archive | None = None,
    ) -> None:
        self._redis = client
        self._patience_s = patience_s
        self._archive = archive
        self._lease_ms = int(lease_s * 1000)

    def uncounted(self, ref: SessionRef, *, most: int) -> Uncounted | None:
        """The oldest uncounted turns, at most ``most``; None for an unknown session."""
        reply = self._run("uncounted", _keys(ref), session=ref.session, most=most)
        if reply is None:
            return None
        fields, entries = reply
        meta = _Meta(fields)
        return Uncounted(
            epoch=meta.epoch,
            revision=meta.revision,
            policy=meta.policy,
            system=meta.system,
            basis=meta.basis,
            counted_seq=meta.counted_seq,
            open_calls=meta.open_calls,
            usage=meta.usage,
            tally=meta.tally,
            put_off=meta.put_off,
            turns=tuple(UncountedTurn(entry.seq, entry.messages) for entry in _log(entries)),
        )

    def record_counts(
        self,
        ref: SessionRef,
        seen: Uncounted,
        *,
        basis: str,
        system_tokens: int,
        open_calls: Sequence[str],
        due: bool,
        turns: Sequence[CountedTurn],
        urgent: bool = False,
    ) -> Recorded:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile."""
        counted, waiting, newly_due = self._run(
            "count",
            _keys(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            session=ref.session,
            epoch=seen.epoch,
            revision=seen.revision,
            basis=basis,
            system_tokens=system_tokens,
            open_calls=json.dumps(list(open_calls)),
            images=sum(turn.images for turn in turns),
            interactions=sum(turn.interactions for turn in turns),
            messages=sum(turn.messages for turn in turns),
            is_due=int(due),
            is_urgent=int(urgent),
        )
        return Recorded(stale=counted == -1, waiting=bool(waiting), newly_due=bool(newly_due))

    def recount(
        self,
        ref: SessionRef,
        seen: Uncounted,
        snapshot: Snapshot,
        *,
        basis: str,
        system_tokens: int,
        context_tokens: int,
        turns: Sequence[CountedTurn],
    ) -> bool:
        """Replace all counts made under another basis; False when the session changed."""
        done = self._run(
            "recount",
            _keys(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            epoch=seen.epoch,
            revision=seen.revision,
            version=str(snapshot.version),
            counted_seq=str(snapshot.counted_seq),
            basis=basis,
            system_tokens=system_tokens,
            context_tokens=context_tokens,
        )
        return bool(done)

    def snapshot(self, ref: SessionRef) -> Snapshot | None:
        """An immutable view of the session; None for an unknown one."""
        reply = self._run("snapshot", _keys(ref))
        if reply is None:
            return None
        fields, body, known, entries, flat = reply
        meta = _Meta(fields)
        stored = StoredContext.parse(body)
        counts = {int(k): int(v) for k, v in zip(flat[::2], flat[1::2], strict=True)}
        elided: dict[int, dict[int, JsonMessage]] = {}
        for elision in stored.elisions:
            elided.setdefault(elision.seq, {})[elision.index] = elision.message
        log = _log(entries)
        return Snapshot(
            namespace=ref.namespace,
            session=ref.session,
            epoch=meta.epoch,
            revision=meta.revision,
            policy=meta.policy,
            system_tokens=meta.usage.system,
            stored=stored.model_copy(update={"tokens": meta.usage.summary}),
            turns=tuple(
                _logged(entry, counts[entry.seq], elided.get(entry.seq, {}))
                for entry in log
                if entry.seq <= meta.counted_seq
            ),
            counted_seq=meta.counted_seq,
            pending=sum(entry.bound for entry in log if entry.seq > meta.counted_seq),
            pending_messages=tuple(entry.messages for entry in log if entry.seq > meta.counted_seq),
            history_tokens=meta.tally.history_tokens,
            images_before=meta.tally.images_before,
            compactions=meta.compactions,
            system=meta.system,
            facts=up_to(_facts(known), stored.watermark),
            tried=_tried(*fields[-3:]),
        )

    def covered(
        self, ref: SessionRef, epoch: str, *, first_seq: int, last_seq: int
    ) -> tuple[LoggedTurn, ...]:
        """Turns out of the log, from Redis and the archive, by seq."""
        if last_seq < first_seq:
            return ()
        # Redis first: what a drain moves meanwhile is in the archive by then.
        left = [left_entry(entry) for entry in self._redis.xrange(_keys(ref).covered)]
        stored: Sequence[ArchivedTurn] = ()
        if self._archive is not None:
            stored = self._archive.turns(ref, epoch=epoch, first_seq=first_seq, last_seq=last_seq)
        found = after_drain(stored, left)
        wanted = [found[seq] for seq in sorted(found) if first_seq <= seq <= last_seq]
        kept = [turn for turn in wanted if turn.state == "kept"]
        return tuple(
            LoggedTurn(
                turn.seq,
                tuple(messages),
                tuple(messages),
                turn.tokens or 0,
                reflection=_reflection(turn.fields),
            )
            for turn, messages in zip(
                kept, decode_turns([turn.messages for turn in kept]), strict=True
            )
        )

    def lease(self, ref: SessionRef, *, forced: bool = False) -> RedisLease:
        """The right to compact the session, as a context manager; None inside when refused."""
        return RedisLease(
            self._run,
            _keys(ref),
            ref.session,
            lease_ms=self._lease_ms,
            forced=forced,
            # Who asked for it would only ask again.
            patience_s=self._patience_s if forced else 0.0,
        )

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        facts: Sequence[Fact] = (),
        owner: str,
        record: Compaction,
        detail: bytes = b"",
    ) -> Committed:
        """Write the context if nobody else committed since the snapshot it was planned from."""
        elided = {elision.seq for elision in context.elisions}
        covered = [turn for turn in snapshot.turns if turn.seq <= context.watermark]
        kept = [turn for turn in snapshot.turns if turn.seq > context.watermark]
        version, again = self._run(
            "commit",
            _keys(ref),
            [n for turn in snapshot.turns if turn.seq in elided for n in (turn.seq, turn.tokens)],
            session=ref.session,
            epoch=snapshot.epoch,
            revision=snapshot.revision,
            expected_version=str(snapshot.version),
            owner=owner,
            body=context.encode(),
            known=_encoded(facts),
            watermark=context.watermark,
            context_tokens=context.tokens,
            images=snapshot.before.tally.images - sum(images(turn.shown) for turn in kept),
            images_covered=sum(images(turn.original) for turn in covered),
            interactions=sum(interactions(turn.original) for turn in covered),
            messages=sum(len(turn.original) for turn in covered),
            hard=snapshot.policy.hard_limit - Usage.REPLY,
            soft_ratio=repr(snapshot.policy.soft_ratio),
            keep_records=KEEP_RECORDS,
            record=record.model_dump_json(exclude_defaults=True),
            detail=detail,
            quality="" if record.quality is None else repr(record.quality),
            channel=commits_channel(ref.namespace),
        )
        return Committed(version=version, again=bool(again))

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Have the sweep look at a session in the backlog later."""
        self._run("defer", _keys(ref), session=ref.session, after_ms=int(after_s * 1000))

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed; due again later, or parked after too many in a row."""
        policy = Policy()
        with suppress(InvalidPolicy):  # that may be what it failed of
            policy = Policy.from_json(self._field(ref, "policy") or b"{}")
        times, parked = self._run(
            "failed",
            _keys(ref),
            session=ref.session,
            error=error,
            park_after=policy.park_after,
            first_ms=FIRST_PAUSE_MS,
            longest_ms=LONGEST_PAUSE_MS,
        )
        return Failed(times, bool(parked))

    def _field(self, ref: SessionRef, name: str) -> bytes | None:
        try:
            value: bytes | None = self._redis.hget(_keys(ref).meta, name)
        except redis.RedisError as error:
            raise translate(error) from error
        return value

    def _run(
        self,
        name: str,
        keys: SessionKeys,
        rest: Sequence[str | bytes | int] = (),
        /,
        **args: str | bytes | int,
    ) -> Any:
        script = load_script(lua.__name__, name)
        words = script.call(keys, rest, **args)
        return run_script(self._redis, script, words)


def _encoded(facts: Sequence[Fact]) -> bytes:
    return encode_json([f.model_dump(exclude_defaults=True) for f in facts]) if facts else b""


def _facts(body: bytes | None) -> tuple[Fact, ...]:
    """The stored ledger; none when another version of turnmill wrote it, which begins a new one."""
    try:
        return tuple(Fact(**fields) for fields in decode_json(body)) if body else ()
    except (TypeError, ValueError):
        return ()


def _tried(deferrals: bytes | None, stale: bytes | None, spent: bytes | None) -> Tried:
    known = Spent(**json.loads(spent)) if spent else NOTHING
    return Tried(deferrals=int(deferrals or 0), stale=int(stale or 0), spent=known)


def _keys(ref: SessionRef) -> SessionKeys:
    return session_keys(ref.namespace, ref.session)


class _Entry(NamedTuple):
    """One turn as the log holds it."""

    seq: Seq
    messages: tuple[JsonMessage, ...]
    bound: int
    pinned: bool
    iteration: int | None
    reflection: str


def _log(entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> list[_Entry]:
    """The log's entries with their messages decoded."""
    raw = [LogEntry.of(entry) for entry in entries]
    turns = decode_turns([entry.messages for entry in raw])
    return [
        _Entry(
            entry.seq,
            tuple(messages),
            entry.bound,
            entry.pinned,
            entry.iteration,
            _reflection(entry.fields),
        )
        for entry, messages in zip(raw, turns, strict=True)
    ]


def _reflection(fields: bytes) -> str:
    """What the agent noted about its own work in a turn's metadata, if that is a text."""
    if b'"reflection":' not in fields:
        return ""
    found = (decode_json(fields).get("metadata") or {}).get("reflection")
    return found if isinstance(found, str) else ""


def _logged(entry: _Entry, tokens: int, elided: Mapping[int, JsonMessage]) -> LoggedTurn:
    shown = tuple(elided.get(at, message) for at, message in enumerate(entry.messages))
    return LoggedTurn(
        entry.seq,
        entry.messages,
        shown,
        tokens,
        entry.pinned,
        entry.iteration,
        entry.reflection,
    )


class _Meta:
    """The meta fields both loading scripts return first, in their order."""

    def __init__(self, fields: Sequence[bytes | None]) -> None:
        text = [(field or b"").decode("utf-8", "replace") for field in fields]
        self.epoch, revision, policy, self.system, system_tokens, self.basis = text[:6]
        counted, _last, context_tokens, tail = (int(value or 0) for value in text[6:10])
        self.open_calls: tuple[str, ...] = tuple(json.loads(text[10] or "[]"))
        self.revision = revision or "0"
        self.policy = Policy.from_json(policy) if policy else Policy()
        self.counted_seq = Seq(counted)
        self.usage = Usage(system=int(system_tokens or 0), summary=context_tokens, tail=tail)
        shown, before, requests, history, compactions, put_off = (
            int(value or 0) for value in text[11:17]
        )
        self.tally = Tally(
            images=shown, images_before=before, interactions=requests, history_tokens=history
        )
        self.compactions = compactions
        self.put_off = put_off
