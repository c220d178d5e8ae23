"""Builds script calls and parses their replies; no I/O. Both clients are this plus an ``await``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import redis

from turnmill import lua
from turnmill.contract.context import (
    Context,
    ContextInfo,
    Pushed,
)
from turnmill.contract.errors import (
    InvalidInput,
    InvalidTurn,
    StoreFull,
    StoreUnavailable,
    SystemPromptTooLarge,
    TurnmillError,
    UnknownSession,
)
from turnmill.contract.keys import NAMESPACES, SHARDS, SessionKeys, session_keys, shard_keys
from turnmill.contract.names import Namespace, Seq, SessionId, Version, namespace, session_id
from turnmill.contract.policy import MIN_ROOM_TOKENS, Policy
from turnmill.contract.render import system_message
from turnmill.contract.scripts import Script, load_script
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike, encode_turn, to_turn
from turnmill.view import (
    DEFAULT_POLICY,
    META_FIELDS,
    View,
    bound,
    bound_body,
    read_context,
    to_int,
)

__all__ = ["Call", "Command", "Commands", "PushCall", "translate"]

DEDUPE_WINDOW = 10_000
"""How many of a session's newest turn_ids are remembered."""

_LUA = lua.__name__


class Call(NamedTuple):
    """One script call: ``EVALSHA script.sha *words``."""

    script: Script
    words: list[str | bytes | int]


Command = tuple[str | bytes | int, ...]
"""A plain Redis command."""


class PushCall(NamedTuple):
    """A push ready to be sent, and what is needed to report it."""

    call: Call
    session: SessionId
    turn_id: str


def translate(error: redis.RedisError) -> TurnmillError:
    """The typed error for what redis-py raised."""
    # Inside a script Redis 6.2 reports these as plain script errors: only the text tells.
    if isinstance(error, redis.OutOfMemoryError) or "OOM command not allowed" in str(error):
        return StoreFull("Redis is at maxmemory and refuses writes: raise maxmemory, or free some")
    kind = type(error).__name__
    unready = any(word in str(error) for word in ("READONLY", "MISCONF", "BUSY", "LOADING"))
    if unready or isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return StoreUnavailable(f"Redis cannot be reached or answered too late ({kind})")
    return TurnmillError(f"Redis refused the call ({kind}); `turnmill doctor` may say why")


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

    def push(self, session: str, turn: TurnLike, turn_id: str | None = None) -> PushCall:
        """Append a turn; a turn without an id gets one, so that a retry cannot double it."""
        name, keys = self._keys(session)
        value = to_turn(turn, turn_id=turn_id)
        messages, fields = encode_turn(value, max_bytes=self.max_turn_bytes)
        chosen = value.turn_id or os.urandom(16).hex()
        script = load_script(_LUA, "push")
        words = script.call(
            keys,
            session=name,
            turn_id=chosen,
            messages=messages,
            fields=fields,
            bound=bound_body(messages),
            ttl_ms=DEFAULT_POLICY.ttl_s * 1000,
            window=DEDUPE_WINDOW,
        )
        return PushCall(Call(script, words), name, chosen)

    def push_many(self, turns: Iterable[tuple[str, TurnLike]]) -> list[PushCall]:
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
        """Create a session, or change its policy or system prompt; None leaves it as it is.

        A system prompt is weighed by an upper bound; when that puts it in doubt, the reply
        ``is_refused`` and ``open_finally`` settles it.
        """
        name, keys = self._keys(session)
        if system_prompt is not None and not isinstance(system_prompt, str):
            raise InvalidTurn(f"system_prompt: must be a str, got {type(system_prompt).__name__}")
        chosen = policy or DEFAULT_POLICY
        tokens = bound([system_message(system_prompt)]) if system_prompt else 0
        words = load_script(_LUA, "open").call(
            keys,
            session=name,
            policy=policy.model_dump_json() if policy else "",
            hard=chosen.hard_limit,
            ttl_ms=chosen.ttl_s * 1000,
            has_system=int(system_prompt is not None),
            system=(system_prompt or "").encode("utf-8", "replace"),
            system_tokens=tokens,
            is_final=0,
            min_room=MIN_ROOM_TOKENS,
        )
        return Call(load_script(_LUA, "open"), words)

    @staticmethod
    def open_finally(call: Call, system_tokens: int | None) -> Call:
        """The same call with the prompt's exact count, or with its bound as the last word."""
        script, words = call
        at = 1 + len(script.keys) + script.args.index("system_tokens")
        exact = words[at] if system_tokens is None else system_tokens
        return Call(script, [*words[:at], exact, 1, *words[at + 2 :]])

    @staticmethod
    def is_refused(reply: Sequence[int]) -> bool:
        """Whether nothing was changed: the system prompt leaves no room, or it is in doubt."""
        return reply[0] == 0

    @staticmethod
    def opened(reply: Sequence[int]) -> bool:
        """Whether the workers want a hint.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room; nothing was changed.
        """
        if Commands.is_refused(reply):
            _, tokens, limit = reply
            raise SystemPromptTooLarge(
                f"system_prompt: up to {tokens} tokens, and a conversation needs "
                f"{MIN_ROOM_TOKENS} more; the policy's hard limit is {limit}"
            )
        return bool(reply[1])

    # read

    def read(self, session: str) -> list[Command]:
        """One view of the session: commands for one pipeline; see ``is_torn``.

        Not a script: Redis would copy every turn into Lua and back, which doubles the time of a
        read. Not a transaction: Redis at maxmemory refuses those, and a read must always answer
        (docs/decisions/0002-reads-are-pipelines.md).
        """
        _, keys = self._keys(session)
        return [
            ("HMGET", keys.meta, *META_FIELDS),
            ("GET", keys.context),
            ("HGETALL", keys.counts),
            ("XRANGE", keys.log, "-", "+"),
            ("HMGET", keys.meta, *META_FIELDS[:2]),
        ]

    @staticmethod
    def is_torn(reply: Sequence[Any]) -> bool:
        """Whether a commit came between the commands of a read: then read again.

        Pushes and counts may come between: a later turn is simply there, and a later count only
        makes the bound of a turn exact.
        """
        return list(reply[0][:2]) != list(reply[-1])

    def context(self, session: str, reply: Sequence[Any]) -> Context:
        """The context in a read's reply, projected when it is over the hard limit.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply[0][0] is None:
            raise self._unknown(session)
        return read_context(SessionId(session), reply)

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
        view = View.of([meta.get(name) for name in META_FIELDS])
        now_ms = time.time() * 1000
        return ContextInfo(
            session=SessionId(session),
            namespace=self.namespace,
            version=Version(to_int(meta.get(b"version"))),
            watermark=Seq(to_int(meta.get(b"watermark"))),
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

    def registration(self) -> Command:
        """Lists the namespace for the sweep."""
        return ("SADD", NAMESPACES, self.namespace)

    def index_keys(self) -> list[str]:
        """The keys that list this namespace's sessions."""
        return [shard_keys(self.namespace, shard).index for shard in range(SHARDS)]

    @staticmethod
    def sessions(replies: Sequence[Sequence[Any]]) -> list[SessionId]:
        """All sessions, the most recently pushed first."""
        found = [entry for reply in replies for entry in _scored(reply)]
        return [SessionId(name.decode()) for name, _ in sorted(found, key=lambda e: (-e[1], e[0]))]

    def _unknown(self, session: str) -> UnknownSession:
        return UnknownSession(
            f"no session {session!r} in namespace {self.namespace!r}: never opened nor pushed to, "
            "forgotten, or expired"
        )


def _scored(reply: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Members with scores, as redis-py parsed them or as one flat list."""
    if reply and not isinstance(reply[0], bytes):
        return [(name, float(score)) for name, score in reply]
    return [(name, float(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]
