"""What the scripts that load a session reply, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.correction import Correction, Told
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.rules import Mark
from turnmill.contract.sealing import check_plain, text_of
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.tally import Tally
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.ports.values import SessionRef, Uncounted, UncountedTurn
from turnmill_worker.spending import Spent, Tried
from turnmill_worker.store.kept_beside import decoded

__all__ = ["logged_again", "snapshot_in", "uncounted_in"]


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
    fields, body, known, entries, flat, commit_id, tools_tokens, ratios = reply
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
        known=decoded(known, stored.watermark),
        tried=_tried(*fields[-3:]),
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
    told = json.loads(spent) if spent else {}
    known = Spent(**{name: told[name] for name in Spent.__slots__ if name in told})
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
