"""Sessions in Redis, as the pipeline sees them: loads values, runs scripts, holds no logic."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.correction import Correction, Told
from turnmill.contract.errors import CorruptContext, InvalidPolicy
from turnmill.contract.formats import is_newer, refuse_newer, stamp, unreadable
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.keys import commits_channel
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.rules import Mark
from turnmill.contract.sealing import Secret, check_plain, text_of
from turnmill_worker.compaction.snapshot import (
    LoggedTurn,
    Snapshot,
    Tally,
    blobs_shown,
    images,
    images_asked,
    interactions,
)
from turnmill_worker.ports.protocols import Archive
from turnmill_worker.ports.values import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    ArchivedTurn,
    Committed,
    CountedTurn,
    Counts,
    Failed,
    RecordedCounts,
    SessionRef,
    Uncounted,
    UncountedTurn,
    after_drain,
)
from turnmill_worker.reading.known import FORMAT as KNOWN_FORMAT
from turnmill_worker.reading.known import Known
from turnmill_worker.spending import Spent, Tried
from turnmill_worker.store.leases import RedisLease
from turnmill_worker.store.namespaces import sessions_named
from turnmill_worker.store.outgoing import left_entry
from turnmill_worker.store.scripts import keys_of, run, translated


def encoded_known(known: Known) -> bytes:
    """As one value; ``b""`` for nothing."""
    return b"" if known == Known() else encode_json({**known.stored(), **stamp(KNOWN_FORMAT)})


def decoded_known(body: bytes | None, watermark: int) -> Known:
    """What is known of turns up to the watermark; nothing, to begin anew, where it is damaged.

    Raises:
        NewerFormat: a newer version of turnmill wrote it, and this one cannot read it.
    """
    found: Any = {}
    try:
        found = decode_json(body) if body else {}
        refuse_newer(found, "stored facts")
        # A list was written before there was a pool.
        known = Known.restored(found) if isinstance(found, dict) and found else Known()
        return known.up_to(watermark)
    except (AttributeError, LookupError, TypeError, ValueError, struct.error):
        if is_newer(found, than=KNOWN_FORMAT):
            raise unreadable(found, "stored facts", "") from None
        return Known()


def uncounted_in(reply: Sequence[Any]) -> Uncounted:
    """What ``uncounted.lua`` found."""
    fields, entries = reply
    meta = _Meta(fields, fields[18])
    check_plain(fields[19])
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
        summarized=fields[17] == b"1",
        turns=tuple(UncountedTurn(e.seq, e.messages, e.bound, e.chain) for e in _log(entries)),
        tools=fields[19] or b"",
        version=int(fields[20] or 0),
        correction=Correction.stored(text_of(fields[21]), meta.policy.token_ratio),
        told=Told.stored(text_of(fields[22])),
    )


def snapshot_in(ref: SessionRef, reply: Sequence[Any]) -> Snapshot:
    """What ``snapshot.lua`` found."""
    fields, body, known, entries, flat, commit_id, tools_tokens, ratios, time = reply
    meta = _Meta(fields, tools_tokens)
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
        commit_id=(commit_id or b"").decode(),
        policy=meta.policy,
        system_tokens=meta.usage.system,
        stored=stored.model_copy(
            update={"tokens": meta.usage.summary, "recall": meta.policy.recall_tool}
        ),
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
        ratio=Correction.stored(text_of(ratios), meta.policy.token_ratio).ratio,
        system=meta.system,
        known=decoded_known(known, stored.watermark),
        tried=_tried(*fields[-3:]),
        put_off=meta.put_off,
        quiet_s=int(time[0]) + int(time[1]) / 1e6 - log[-1].at_ms / 1000 if log else 0.0,
    )


def logged_again(kept: Sequence[ArchivedTurn]) -> tuple[LoggedTurn, ...]:
    """Turns that left the log, as they were in it."""
    return tuple(
        LoggedTurn(
            turn.seq,
            tuple(messages),
            tuple(messages),
            turn.tokens or 0,
            reflection=_reflection(turn.fields),
        )
        for turn, messages in zip(kept, decode_turns([turn.messages for turn in kept]), strict=True)
    )


def _tried(deferrals: bytes | None, stale: bytes | None, spent: bytes | None) -> Tried:
    known = Spent.stored(json.loads(spent) if spent else {})
    return Tried(deferrals=int(deferrals or 0), stale=int(stale or 0), spent=known)


class _Entry(NamedTuple):
    """One turn as the log holds it."""

    seq: Seq
    messages: tuple[JsonMessage, ...]
    bound: int
    pinned: bool
    iteration: int | None
    reflection: str
    mark: Mark
    chain: str
    at_ms: int


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
            entry.mark,
            entry.chain,
            int(entry.at_ms or 0),
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
        entry.mark,
        entry.chain,
    )


def context_words(context: StoredContext) -> dict[str, str | bytes]:
    """A context as scripts take it, with the images it shows: a cipher would hide them."""
    return {"body": Secret(context.encode()), "shown": " ".join(blobs_shown(context))}


class _Meta:
    """The meta fields both loading scripts return first, in their order, and the tools' tokens."""

    def __init__(self, fields: Sequence[bytes | None], tools_tokens: bytes | None) -> None:
        check_plain(fields[3])  # with "replace", an encrypted prompt would pass for a text
        text = [(field or b"").decode("utf-8", "replace") for field in fields]
        self.epoch, revision, policy, self.system, system_tokens, self.basis = text[:6]
        counted, _last, context_tokens, tail = (int(value or 0) for value in text[6:10])
        self.open_calls: tuple[str, ...] = tuple(json.loads(text[10] or "[]"))
        self.revision = revision or "0"
        self.policy = stored_policy(policy) if policy else Policy()
        self.counted_seq = Seq(counted)
        system = int(system_tokens or 0) + int(tools_tokens or 0)
        self.usage = Usage(system=system, summary=context_tokens, tail=tail)
        shown, before, requests, history, compactions, put_off = (
            int(value or 0) for value in text[11:17]
        )
        self.tally = Tally(
            images=shown, images_before=before, interactions=requests, history_tokens=history
        )
        self.compactions = compactions
        self.put_off = put_off


KEEP_RECORDS = 100
"""Compaction records kept per session in Redis, roughly; the archive has all."""


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
        self._run = partial(run, client)
        self._patience_s = patience_s
        self._archive = archive
        self._lease_ms = int(lease_s * 1000)

    def uncounted(self, ref: SessionRef, *, most: int) -> Uncounted | None:
        """The oldest uncounted turns, at most ``most``; None for an unknown session."""
        reply = self._run("uncounted", keys_of(ref), session=ref.session, most=most)
        return None if reply is None else uncounted_in(reply)

    def overdue(self, ref: SessionRef, *, most: int) -> list[SessionRef]:
        """Sessions of the same shard that wait to be counted, the longest first."""
        keys = keys_of(ref)
        members = self._run("overdue", keys, most=most)
        with translated():
            names = sessions_named(self._redis, keys.backlog, members)
        return [SessionRef(ref.namespace, name) for name in names]

    def record_counts(self, ref: SessionRef, seen: Uncounted, counts: Counts) -> RecordedCounts:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile."""
        turns, look = counts.turns, counts.look
        counted, waiting, newly_due = self._run(
            "count",
            keys_of(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            session=ref.session,
            epoch=seen.epoch,
            revision=seen.revision,
            newest=str(seen.turns[-1].seq) if turns else "",
            newest_chain=seen.turns[-1].chain if turns else "",
            basis=counts.basis,
            system_tokens=counts.system_tokens,
            tools_tokens=counts.tools_tokens,
            open_calls=json.dumps(list(counts.open_calls)),
            bounds=sum(turn.bound for turn in seen.turns),
            images=sum(turn.images for turn in turns),
            interactions=sum(turn.interactions for turn in turns),
            messages=sum(turn.messages for turn in turns),
            is_due=int(counts.due),
            is_urgent=int(counts.urgent),
            handover_ms=int(counts.handover_s * 1000),
            idle_ms=int(counts.idle_s * 1000),
            look_tokens="" if look.tokens is None else look.tokens,
            look_bound=look.bound,
            bound_ratio=f"{look.ratio:.3f}",
            **counts.learned._asdict(),
        )
        return RecordedCounts(stale=counted == -1, waiting=bool(waiting), newly_due=bool(newly_due))

    def recount(
        self,
        ref: SessionRef,
        seen: Uncounted,
        snapshot: Snapshot,
        *,
        basis: str,
        system_tokens: int,
        tools_tokens: int,
        context_tokens: int,
        turns: Sequence[CountedTurn],
    ) -> bool:
        """Replace all counts made under another basis; False when the session changed."""
        done = self._run(
            "recount",
            keys_of(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            **_planned_from(snapshot) | {"epoch": seen.epoch, "revision": seen.revision},
            version=str(snapshot.version),
            counted_seq=str(snapshot.counted_seq),
            basis=basis,
            system_tokens=system_tokens,
            tools_tokens=tools_tokens,
            context_tokens=context_tokens,
        )
        return bool(done)

    def snapshot(self, ref: SessionRef) -> Snapshot | None:
        """An immutable view of the session; None for an unknown one."""
        reply = self._run("snapshot", keys_of(ref))
        if reply is None:
            return None
        found = snapshot_in(ref, reply)
        if found.policy.summary_on == "turns":
            return found
        with translated():  # other tools by now are another revision, which no commit passes
            body = self._redis.hget(keys_of(ref).meta, "tools")
        check_plain(body)
        return replace(found, tools=decode_json(body) if body else ())

    def covered(
        self, ref: SessionRef, epoch: str, *, first_seq: int, last_seq: int
    ) -> tuple[LoggedTurn, ...]:
        """Turns that left the log, from Redis and the archive, by seq."""
        if last_seq < first_seq:
            return ()
        # Redis first: what a drain moves meanwhile is in the archive by then.
        with translated():
            left = [left_entry(entry) for entry in self._redis.xrange(keys_of(ref).covered)]
        stored: Sequence[ArchivedTurn] = ()
        if self._archive is not None:
            stored = self._archive.turns(ref, epoch=epoch, first_seq=first_seq, last_seq=last_seq)
        found = after_drain(stored, left)
        wanted = [found[seq] for seq in sorted(found) if first_seq <= seq <= last_seq]
        return logged_again([turn for turn in wanted if turn.state == "kept"])

    def lease(self, ref: SessionRef, *, forced: bool = False) -> RedisLease:
        """The right to compact the session, as a context manager; None inside when refused."""
        return RedisLease(
            self._run,
            keys_of(ref),
            ref.session,
            lease_ms=self._lease_ms,
            forced=forced,
            # A caller that asked for the compaction would only ask again.
            patience_s=self._patience_s if forced else 0.0,
        )

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        known: Known,
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
            keys_of(ref),
            [n for turn in snapshot.turns if turn.seq in elided for n in (turn.seq, turn.tokens)],
            session=ref.session,
            **_planned_from(snapshot),
            expected_version=str(snapshot.version),
            commit_id=uuid.uuid4().hex,
            owner=owner,
            **context_words(context),
            known=Secret(encoded_known(known)),
            watermark=context.watermark,
            context_tokens=context.tokens,
            images=snapshot.before.tally.images - _images_left(kept, context),
            images_covered=sum(images(turn.original) for turn in covered),
            interactions=sum(interactions(turn.original) for turn in covered),
            messages=sum(len(turn.original) for turn in covered),
            hard=snapshot.limits.hard - Usage.REPLY,
            soft_ratio=repr(snapshot.policy.soft_ratio),
            keep_records=KEEP_RECORDS,
            summarized=int(bool(record.model)),
            record=record.encode(),
            detail=Secret(detail),
            quality="" if record.quality is None else repr(record.quality),
            channel=commits_channel(ref.namespace),
        )
        return Committed(version=version, again=bool(again))

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Let the sweep look at a session in the backlog later."""
        self._run("defer", keys_of(ref), session=ref.session, after_ms=int(after_s * 1000))

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed; due again later, or parked after too many in a row."""
        policy = Policy()
        with suppress(InvalidPolicy, CorruptContext):  # that may be why it failed
            with translated():
                body = self._redis.hget(keys_of(ref).meta, "policy")
            policy = stored_policy(body or b"{}")
        times, parked = self._run(
            "failed",
            keys_of(ref),
            session=ref.session,
            error=error,
            park_after=policy.park_after,
            first_ms=int(FIRST_PAUSE_S * 1000),
            longest_ms=int(LONGEST_PAUSE_S * 1000),
        )
        return Failed(times, bool(parked))


def _images_left(kept: Sequence[LoggedTurn], context: StoredContext) -> int:
    """Images that these turns and the context's open requests show."""
    return sum(images(turn.shown) for turn in kept) + images_asked(context)


def _planned_from(snapshot: Snapshot) -> dict[str, str]:
    """What must be as it was, for what is planned from the snapshot to be written."""
    newest, chain = snapshot.newest
    return {
        "epoch": snapshot.epoch,
        "revision": snapshot.revision,
        "expected_commit": snapshot.commit_id,
        "newest": newest,
        "newest_chain": chain,
    }
