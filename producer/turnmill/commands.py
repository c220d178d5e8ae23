"""Builds script calls and parses their replies; no I/O. Both clients are this plus an ``await``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import redis
from pydantic_core import from_json

from turnmill import lua
from turnmill.contract.context import (
    Context,
    ContextInfo,
    JsonMessage,
    Pushed,
    StoredContext,
    TailTurn,
    Usage,
)
from turnmill.contract.errors import (
    CorruptContext,
    InvalidInput,
    InvalidTurn,
    StoreFull,
    StoreUnavailable,
    SystemPromptTooLarge,
    TurnmillError,
    UnknownSession,
)
from turnmill.contract.estimate import bound_turn
from turnmill.contract.keys import SHARDS, SessionKeys, session_keys, shard_keys
from turnmill.contract.legality import repair
from turnmill.contract.names import Namespace, Seq, SessionId, Version, namespace, session_id
from turnmill.contract.policy import MIN_ROOM_TOKENS, Policy
from turnmill.contract.render import render_head, system_message
from turnmill.contract.scripts import Script, load_script
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, encode_turn, to_turn
from turnmill.projection import project

__all__ = ["Call", "Command", "Commands", "PushCall", "decode_turns", "translate"]

DEDUPE_WINDOW = 10_000
"""How many of a session's newest turn_ids are remembered."""

_LUA = lua.__name__


class Call(NamedTuple):
    """One script call: ``EVALSHA script.sha *words``."""

    script: Script
    words: list[str | bytes | int]


Command = tuple[str | bytes, ...]
"""A plain Redis command."""


class PushCall(NamedTuple):
    """A push ready to be sent, and what is needed to report it."""

    call: Call
    session: SessionId
    turn_id: str


def translate(error: redis.RedisError) -> TurnmillError:
    """The typed error for what redis-py raised."""
    if isinstance(error, redis.OutOfMemoryError):
        return StoreFull("Redis is at maxmemory and refuses writes: raise maxmemory, or free some")
    kind = type(error).__name__
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.ReadOnlyError):
        return StoreUnavailable(f"Redis cannot be reached or answered too late ({kind})")
    return TurnmillError(f"Redis refused the call ({kind}); `turnmill doctor` may say why")


def decode_turns(bodies: Sequence[bytes]) -> list[list[JsonMessage]]:
    """The messages of stored turns.

    Raises:
        CorruptContext: a turn is not what this version of turnmill writes.
    """
    try:
        turns: list[list[JsonMessage]] = from_json(b"[%b]" % b",".join(bodies))
    except ValueError:
        turns = [_decode_turn(body) for body in bodies]
    if not all(isinstance(turn, list) for turn in turns):
        raise CorruptContext("stored turn: not a list of messages")
    return turns


def _decode_turn(body: bytes) -> list[JsonMessage]:
    try:
        turn: list[JsonMessage] = json.loads(body)  # slower, and takes lone surrogates
    except ValueError:
        # Not chained: the decoder's error holds the text.
        raise CorruptContext(f"stored turn: {len(body)} bytes that are not JSON") from None
    return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The calls of one namespace."""

    namespace: Namespace
    max_turn_bytes: int = DEFAULT_MAX_TURN_BYTES

    @classmethod
    def of(cls, name: str, max_turn_bytes: int) -> Commands:
        """Commands for a namespace, its name checked."""
        if max_turn_bytes < 1:
            raise InvalidInput(f"max_turn_bytes {max_turn_bytes} must be at least 1")
        return cls(namespace=namespace(name), max_turn_bytes=max_turn_bytes)

    def _keys(self, session: str) -> tuple[SessionId, SessionKeys]:
        checked = session_id(session)
        return checked, session_keys(self.namespace, checked)

    # push

    def push(self, session: str, turn: object, turn_id: str | None = None) -> PushCall:
        """Append a turn; a turn without an id gets one, so that a retry cannot double it."""
        name, keys = self._keys(session)
        value = to_turn(turn, turn_id=turn_id)
        messages, fields = encode_turn(value, max_bytes=self.max_turn_bytes)
        chosen = value.turn_id or os.urandom(16).hex()
        words = load_script(_LUA, "push").call(
            keys,
            session=name,
            turn_id=chosen,
            messages=messages,
            fields=fields,
            bound=bound_turn(messages),
            ttl_ms=_DEFAULT_POLICY.ttl_s * 1000,
            window=DEDUPE_WINDOW,
        )
        return PushCall(Call(load_script(_LUA, "push"), words), name, chosen)

    def push_many(self, turns: Iterable[tuple[str, object]]) -> list[PushCall]:
        """One push per (session, turn); all are checked before any is sent."""
        calls = []
        for at, (session, turn) in enumerate(turns):
            try:
                calls.append(self.push(session, turn))
            except InvalidInput as error:
                raise type(error)(f"turns[{at}]: {error}") from None
        return calls

    @staticmethod
    def pushed(push: PushCall, reply: Sequence[int]) -> tuple[Pushed, bool]:
        """Where the turn went, and whether the workers want a hint."""
        seq, hint, duplicate = reply
        done = Pushed(
            session=push.session, seq=Seq(seq), turn_id=push.turn_id, duplicate=bool(duplicate)
        )
        return done, bool(hint)

    # open

    def open(self, session: str, policy: Policy | None, system_prompt: str | None) -> Call:
        """Create a session, or change its policy or system prompt; None leaves it as it is."""
        name, keys = self._keys(session)
        if system_prompt is not None and not isinstance(system_prompt, str):
            raise InvalidTurn(f"system_prompt: must be a str, got {type(system_prompt).__name__}")
        chosen = policy or _DEFAULT_POLICY
        bound = bound_turn(_one(system_message(system_prompt))) if system_prompt else 0
        words = load_script(_LUA, "open").call(
            keys,
            session=name,
            policy=policy.model_dump_json(exclude_defaults=True) if policy else "",
            hard=chosen.hard_limit,
            ttl_ms=chosen.ttl_s * 1000,
            has_system=int(system_prompt is not None),
            system=(system_prompt or "").encode("utf-8", "replace"),
            system_bound=bound,
            min_room=MIN_ROOM_TOKENS,
        )
        return Call(load_script(_LUA, "open"), words)

    @staticmethod
    def opened(reply: Sequence[int]) -> bool:
        """Whether the workers want a hint.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room; nothing was changed.
        """
        if reply[0] == 0:
            _, tokens, limit = reply
            raise SystemPromptTooLarge(
                f"system_prompt: up to {tokens} tokens, and a conversation needs "
                f"{MIN_ROOM_TOKENS} more; the policy's hard limit is {limit}"
            )
        return bool(reply[1])

    # read

    def read(self, session: str) -> list[Command]:
        """One atomic view of the session: commands for one MULTI/EXEC.

        A transaction and not a script: Redis would copy every turn into Lua and back, which
        doubles the time of a read (docs/decisions/0002-reads-are-transactions.md).
        """
        _, keys = self._keys(session)
        return [
            ("HMGET", keys.meta, *_FIELDS),
            ("GET", keys.context),
            ("XRANGE", keys.log, "-", "+"),
            ("HGETALL", keys.counts),
        ]

    def context(self, session: str, reply: Sequence[Any]) -> Context:
        """The context in a read's reply, projected when it is over the hard limit.

        Raises:
            UnknownSession: there is no such session.
        """
        meta, body, entries, counts = reply
        if meta[0] is None:
            raise self._unknown(session)
        view = _View.of(meta)
        stored = StoredContext.parse(body)
        log = [_LogEntry.of(entry) for entry in entries]
        turns = _with_elisions(decode_turns([entry.messages for entry in log]), log, stored)
        pending = sum(entry.bound for entry in log if entry.seq > view.counted_seq)
        plain = render_head(stored, view.system)
        for turn in turns:
            plain += turn
        messages = repair(plain)
        tokens = view.usage.total + pending
        if messages is not plain:
            pushed = set(map(id, plain))
            tokens += _bound([message for message in messages if id(message) not in pushed])
        receipt = None
        if tokens > view.hard:
            projected = project(
                view.system,
                stored,
                _tail(log, turns, view.counted_seq, counts),
                view.policy.limits(view.usage.system),
                _bound,
                fixed_tokens=view.usage.system + view.usage.summary + view.usage.REPLY,
            )
            messages, tokens, receipt = projected.messages, projected.tokens, projected.receipt
        return Context(
            messages=messages,
            session=SessionId(session),
            version=stored.version,
            watermark=stored.watermark,
            last_seq=view.last_seq,
            tokens=tokens,
            exact=not pending and messages is plain,
            projection=receipt,
        )

    # info, forget, sessions

    def info(self, session: str) -> Call:
        """The session's numbers."""
        name, keys = self._keys(session)
        script = load_script(_LUA, "info")
        return Call(script, script.call(keys, session=name))

    def context_info(self, session: str, reply: list[Any] | None) -> ContextInfo:
        """The numbers in an info call's reply.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        flat, pending, log, covered, compactions, waiting, due = reply
        meta = dict(zip(flat[::2], flat[1::2], strict=True))
        view = _View.of([meta.get(name) for name in _FIELDS])
        now_ms = time.time() * 1000
        return ContextInfo(
            session=SessionId(session),
            namespace=self.namespace,
            version=Version(_int(meta.get(b"version"))),
            watermark=Seq(_int(meta.get(b"watermark"))),
            last_seq=view.last_seq,
            counted_seq=view.counted_seq,
            usage=replace(view.usage, pending=pending),
            limits=view.policy.limits(view.usage.system),
            policy=view.policy,
            turns_in_log=log,
            turns_covered=covered,
            compactions=compactions,
            pending_for_s=None if waiting is None else (now_ms - float(waiting)) / 1000,
            due_in_s=None if due is None else (float(due) - now_ms) / 1000,
        )

    def forget(self, session: str) -> Call:
        """Remove the session."""
        name, keys = self._keys(session)
        script = load_script(_LUA, "forget")
        return Call(script, script.call(keys, session=name))

    def index_keys(self) -> list[str]:
        """The keys that list this namespace's sessions."""
        return [shard_keys(self.namespace, shard).index for shard in range(SHARDS)]

    @staticmethod
    def sessions(replies: Sequence[Sequence[tuple[bytes, float]]]) -> list[SessionId]:
        """All sessions, the most recently pushed first."""
        found = [entry for reply in replies for entry in reply]
        return [SessionId(name.decode()) for name, _ in sorted(found, key=lambda e: (-e[1], e[0]))]

    def _unknown(self, session: str) -> UnknownSession:
        return UnknownSession(
            f"no session {session!r} in namespace {self.namespace!r}: never opened nor pushed to, "
            "forgotten, or expired"
        )


_DEFAULT_POLICY = Policy()

_FIELDS = (
    b"epoch",
    b"version",
    b"watermark",
    b"last_seq",
    b"counted_seq",
    b"system",
    b"system_tokens",
    b"context_tokens",
    b"tail_tokens",
    b"hard",
    b"policy",
)


@dataclass(frozen=True, slots=True)
class _View:
    """The meta fields a read returns, in the order of ``_FIELDS``."""

    last_seq: Seq
    counted_seq: Seq
    system: str
    usage: Usage
    hard: int
    policy_json: bytes

    @classmethod
    def of(cls, fields: Sequence[bytes | None]) -> _View:
        return cls(
            last_seq=Seq(_int(fields[3])),
            counted_seq=Seq(_int(fields[4])),
            system=(fields[5] or b"").decode(),
            usage=Usage(
                system=_int(fields[6]),
                summary=_int(fields[7]),
                tail=_int(fields[8]),
            ),
            hard=_int(fields[9]) or _DEFAULT_POLICY.hard_limit,
            policy_json=fields[10] or b"",
        )

    @property
    def policy(self) -> Policy:
        return Policy.from_json(self.policy_json) if self.policy_json else _DEFAULT_POLICY


def _int(value: bytes | None) -> int:
    return int(value) if value else 0


class _LogEntry(NamedTuple):
    """One turn as the log holds it."""

    seq: Seq
    messages: bytes
    bound: int
    fields: bytes

    @classmethod
    def of(cls, entry: tuple[bytes, Any]) -> _LogEntry:
        """An entry as redis-py parsed it, or raw, in the order push.lua writes its fields."""
        entry_id, fields = entry
        if isinstance(fields, dict):
            fields = [part for pair in fields.items() for part in pair]
        return cls(Seq(int(entry_id[:-2])), fields[1], int(fields[3]), fields[7])


def _with_elisions(
    turns: list[list[JsonMessage]], log: Sequence[_LogEntry], stored: StoredContext
) -> list[list[JsonMessage]]:
    if stored.elisions:
        place = {entry.seq: at for at, entry in enumerate(log)}
        for elision in stored.elisions:
            turns[place[Seq(elision.seq)]][elision.index] = elision.message
    return turns


def _tail(
    log: Sequence[_LogEntry],
    turns: Sequence[Sequence[JsonMessage]],
    counted_seq: int,
    counts: Mapping[bytes, bytes],
) -> list[TailTurn]:
    """The log's turns with their tokens: exact where counted, else the producer's bound."""
    return [
        TailTurn(
            seq=entry.seq,
            messages=tuple(messages),
            tokens=int(counts.get(b"%d" % entry.seq) or entry.bound),
            exact=entry.seq <= counted_seq,
            pinned=b'"pinned":true' in entry.fields,
        )
        for entry, messages in zip(log, turns, strict=True)
    ]


def _bound(messages: Sequence[JsonMessage]) -> int:
    """An upper bound for these messages, with the reply's opening."""
    text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
    return bound_turn(text.encode("utf-8", "replace")) + Usage.REPLY


def _one(message: JsonMessage) -> bytes:
    return json.dumps([message], ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
