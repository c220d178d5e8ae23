"""Builds script calls and parses their replies; no I/O. Both clients are this plus an ``await``."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import redis

from turnmill import lua
from turnmill.contract.blobs import refs_of
from turnmill.contract.context import (
    EMPTY,
    Context,
    ContextInfo,
    Pushed,
    StoredContext,
)
from turnmill.contract.errors import (
    CorruptContext,
    InvalidInput,
    InvalidTurn,
    StoreFull,
    StoreUnavailable,
    SystemPromptTooLarge,
    TurnmillError,
    TurnTooLarge,
    UnknownPolicy,
    UnknownSession,
)
from turnmill.contract.estimate import bound_turn
from turnmill.contract.images import ImageRef
from turnmill.contract.keys import (
    NAMESPACES,
    SHARDS,
    SessionKeys,
    policies_key,
    session_keys,
    shard_keys,
)
from turnmill.contract.names import (
    Namespace,
    Seq,
    SessionId,
    Version,
    namespace,
    policy_name,
    session_id,
)
from turnmill.contract.policy import MIN_ROOM_TOKENS, Policy
from turnmill.contract.render import render_head, system_message
from turnmill.contract.results import Checkpoint, Forgotten
from turnmill.contract.scripts import Script, load_script
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike, encode_turn, to_turn
from turnmill.pictures import DEFAULT_MAX_IMAGE_BYTES, Picture, take_pictures
from turnmill.view import (
    DEFAULT_POLICY,
    META_FIELDS,
    View,
    bound,
    read_context,
    to_int,
)

__all__ = ["Call", "Command", "Commands", "PushCall", "translate"]

DEFAULT_NAME = "default"
"""The namespace's policy for sessions opened without one."""

MAX_CHECKPOINT_CHARS = 200
MAX_MEMORIES = 100

DEDUPE_WINDOW = 10_000
"""How many of a session's newest turn_ids are remembered."""

CHUNK = 500
"""Turns per pipeline of ``push_many``."""

CHUNK_BYTES = 32 * 1024 * 1024
"""Bytes of pictures per pipeline of ``push_many``."""

PUT_MS = 300_000
"""How long a picture stays that was put and never pushed."""

_LUA = lua.__name__


class Call(NamedTuple):
    """One script call: ``EVALSHA script.sha *words``."""

    script: Script
    words: list[str | bytes | int]


Command = tuple[str | bytes | int, ...]
"""A plain Redis command."""


class PushCall(NamedTuple):
    """A push ready to be sent after its pictures, and what is needed to report it."""

    call: Call
    session: SessionId
    turn_id: str
    pictures: tuple[Picture, ...] = ()


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
    max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES

    @classmethod
    def of(
        cls, name: str, max_turn_bytes: int, max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES
    ) -> Commands:
        """Commands for a namespace, its name checked."""
        if max_turn_bytes < 1:
            raise InvalidInput(f"max_turn_bytes {max_turn_bytes} must be at least 1")
        if max_image_bytes < 1:
            raise InvalidInput(f"max_image_bytes {max_image_bytes} must be at least 1")
        return cls(
            namespace=namespace(name),
            max_turn_bytes=max_turn_bytes,
            max_image_bytes=max_image_bytes,
        )

    def _keys(self, session: str) -> tuple[SessionId, SessionKeys]:
        checked = session_id(session)
        return checked, session_keys(self.namespace, checked)

    # push

    def push(self, session: str, turn: TurnLike, turn_id: str | None = None) -> PushCall:
        """Append a turn; a turn without an id gets one, so that a retry cannot double it."""
        name, keys = self._keys(session)
        value, pictures = take_pictures(to_turn(turn, turn_id=turn_id), keys.blob)
        size = _bytes_of(pictures)
        if size > self.max_image_bytes:
            raise TurnTooLarge(
                f"turn: {size} bytes of pictures; at most {self.max_image_bytes} are allowed"
            )
        messages, fields = encode_turn(value, max_bytes=self.max_turn_bytes)
        chosen = value.turn_id or os.urandom(16).hex()
        script = load_script(_LUA, "push")
        words = script.call(
            keys,
            [word for p in pictures for word in (p.ref.sha256, p.ref.media_type)],
            session=name,
            turn_id=chosen,
            messages=messages,
            fields=fields,
            bound=bound_turn(messages),
            ttl_ms=DEFAULT_POLICY.ttl_s * 1000,
            window=DEDUPE_WINDOW,
            checkpoint_every=DEFAULT_POLICY.checkpoint_interval,
            keep_checkpoints=DEFAULT_POLICY.keep_checkpoints,
        )
        return PushCall(Call(script, words), name, chosen, pictures)

    def push_many(self, turns: Iterable[tuple[str, TurnLike]]) -> list[PushCall]:
        """One push per (session, turn); all are checked before any is sent."""
        calls = []
        known: dict[str, Picture] = {}  # a picture in many turns is in memory once
        for at, (session, turn) in enumerate(turns):
            try:
                push = self.push(session, turn)
            except InvalidInput as error:
                raise type(error)(f"turns[{at}]: {error}") from None
            pictures = tuple(known.setdefault(each.key, each) for each in push.pictures)
            calls.append(push._replace(pictures=pictures))
        return calls

    @staticmethod
    def chunks(pushes: Sequence[PushCall]) -> Iterator[list[PushCall]]:
        """The pushes in order, in parts that bound what one round trip has in memory."""
        chunk: list[PushCall] = []
        size = 0
        for push in pushes:
            own = _bytes_of(push.pictures)
            if chunk and (len(chunk) == CHUNK or size + own > CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(push)
            size += own
        if chunk:
            yield chunk

    @staticmethod
    def puts(pushes: Sequence[PushCall], keys: Collection[str]) -> list[Command]:
        """Puts the pictures of these keys, each once, to expire unless a push follows.

        Plain commands: a script would copy every picture into Lua and back, while others wait.
        """
        found = {p.key: p.data for push in pushes for p in push.pictures if p.key in keys}
        return [("SET", key, data, "NX", "PX", PUT_MS) for key, data in found.items()]

    @staticmethod
    def calls(pushes: Sequence[PushCall]) -> list[Command]:
        """The pushes for one pipeline.

        The first has the source, so that a server that lost the script has it for the rest.
        """
        script = pushes[0].call.script
        first: Command = ("EVAL", script.source, *pushes[0].call.words)
        return [first, *(("EVALSHA", script.sha, *push.call.words) for push in pushes[1:])]

    @staticmethod
    def settled(replies: Sequence[Any], *, puts: int) -> list[Any]:
        """The replies to pushes; for one that lacks a picture, why a picture was not put."""
        refused = [reply for reply in replies[:puts] if isinstance(reply, redis.RedisError)]
        return [
            refused[0]
            if refused and isinstance(reply, list) and Commands.lacks_pictures(reply)
            else reply
            for reply in replies[puts:]
        ]

    @staticmethod
    def lacks_pictures(reply: Sequence[Any]) -> bool:
        """Whether nothing was stored, because Redis lacks a picture it was believed to have."""
        return bool(reply[0] == 0)

    @staticmethod
    def pushed(push: PushCall, reply: Sequence[Any]) -> tuple[Pushed, bool]:
        """Where the turn went, and whether the workers want a hint.

        Raises:
            StoreUnavailable: its pictures are not there, and it was not stored.
        """
        seq, hint, duplicate, checkpoint = reply
        if not seq:
            raise StoreUnavailable(
                "Redis lost the turn's pictures before the turn was there: does it evict keys?"
            )
        done = Pushed(
            session=push.session,
            seq=Seq(seq),
            turn_id=push.turn_id,
            duplicate=bool(duplicate),
            checkpoint=checkpoint.decode() if checkpoint else None,
        )
        return done, bool(hint)

    # open

    def open(
        self,
        session: str,
        policy: Policy | None,
        system_prompt: str | None,
        policy_name: str = "",
    ) -> Call:
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
            policy_name=policy_name,
            hard=chosen.hard_limit,
            ttl_ms=chosen.ttl_s * 1000,
            checkpoint_every=chosen.checkpoint_interval,
            keep_checkpoints=chosen.keep_checkpoints,
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

    @staticmethod
    def pictures(reply: Sequence[Any], context: Context) -> list[ImageRef]:
        """The pictures a context shows; none is looked for where none was ever pushed."""
        was_pushed = reply[0][META_FIELDS.index(b"pictures")] is not None
        return refs_of(context.messages) if was_pushed else []

    def fetch(self, session: str, refs: Sequence[ImageRef]) -> list[Command]:
        """The bytes of pictures."""
        _, keys = self._keys(session)
        return [("GET", f"{keys.blob}{ref.sha256}") for ref in refs]

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
        flat, body, pending, pending_bytes, log, messages, covered, waiting, due = reply
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
            basis=view.basis,
            limits=view.policy.limits(view.usage.system),
            policy=view.policy,
            pending_bytes=pending_bytes,
            total_messages=to_int(meta.get(b"messages"))
            + messages
            + _head_messages(view.system, body),
            turns_in_log=log,
            turns_covered=covered,
            compactions=to_int(meta.get(b"compactions")),
            interactions=to_int(meta.get(b"interactions")),
            images=to_int(meta.get(b"images")),
            history_tokens=to_int(meta.get(b"history_tokens")),
            quality=float(meta[b"quality"]) if meta.get(b"quality") else None,
            settings=to_int(meta.get(b"settings")),
            policy_name=meta.get(b"policy_name", b"").decode(),
            pending_for_s=None if waiting is None else (now_ms - float(waiting)) / 1000,
            due_in_s=None if due is None else (float(due) - now_ms) / 1000,
        )

    def forget(self, session: str) -> Call:
        """Remove the session."""
        return self._call("forget", session)

    @staticmethod
    def forgotten(reply: Sequence[int]) -> Forgotten:
        """What forgetting removed."""
        return Forgotten(existed=bool(reply[0]), keys_left=reply[1])

    def _call(self, name: str, session: str, **args: str | bytes | int) -> Call:
        checked, keys = self._keys(session)
        script = load_script(_LUA, name)
        return Call(script, script.call(keys, session=checked, **args))

    # grounding

    @staticmethod
    def ground(query: str, k: int) -> dict[str, Any]:
        """The question for memories.

        Raises:
            InvalidInput: not text, or too many asked for.
        """
        if not isinstance(query, str):
            raise InvalidInput(f"query: must be a str, got {type(query).__name__}")
        if not 1 <= k <= MAX_MEMORIES:
            raise InvalidInput(f"k {k} must be in 1..{MAX_MEMORIES}")
        return {"query": query, "k": k}

    @staticmethod
    def remember(text: str) -> dict[str, Any]:
        """The wish that a text be remembered.

        Raises:
            InvalidInput: not text, or nothing in it.
        """
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text: must be a str that is not blank")
        return {"text": text}

    # policies by name

    def policy_named(self, name: str) -> Command:
        """The JSON of one of the namespace's policies."""
        return ("HGET", policies_key(self.namespace), policy_name(name))

    def named_policy(self, name: str, reply: bytes | None) -> Policy:
        """The policy in the reply.

        Raises:
            UnknownPolicy: the namespace has none of this name.
        """
        if reply is None:
            raise UnknownPolicy(
                f"no policy {name!r} in namespace {self.namespace!r}: "
                "`turnmill policies list` shows those there are"
            )
        return Policy.from_json(reply)

    def put_policy(self, name: str, policy: Policy) -> Command:
        """Give the namespace a policy under a name."""
        body = policy.model_dump_json()
        return ("HSET", policies_key(self.namespace), policy_name(name), body)

    def list_policies(self) -> Command:
        """All policies of the namespace."""
        return ("HGETALL", policies_key(self.namespace))

    @staticmethod
    def policies(reply: Any) -> dict[str, Policy]:
        """The policies in the reply, by name."""
        pairs = (
            reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
        )
        return {name.decode(): Policy.from_json(body) for name, body in sorted(pairs)}

    def policy_followed(self, session: str) -> Command:
        """Whether the session has a policy, and of what name."""
        return ("HMGET", self._keys(session)[1].meta, "policy", "policy_name")

    # checkpoints

    def checkpoint(self, session: str, message: str, name: str) -> Call:
        """Remember the context as it is now.

        Raises:
            InvalidInput: message or name are too long, or not text.
        """
        for field, value in (("message", message), ("name", name)):
            if not isinstance(value, str) or len(value) > MAX_CHECKPOINT_CHARS:
                raise InvalidInput(
                    f"{field}: must be a str of at most {MAX_CHECKPOINT_CHARS} characters"
                )
        return self._call(
            "checkpoint",
            session,
            id=name.encode("utf-8", "replace"),
            message=message.encode("utf-8", "replace"),
            keep_checkpoints=DEFAULT_POLICY.keep_checkpoints,
        )

    def checkpointed(self, session: str, reply: bytes | None) -> str | None:
        """The id of the checkpoint made, or None where the policy keeps none.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        return reply.decode() or None

    def list_checkpoints(self, session: str) -> list[Command]:
        """All checkpoints of the session."""
        _, keys = self._keys(session)
        return [
            ("EXISTS", keys.meta),
            ("XRANGE", keys.checkpoints, "-", "+"),
            ("XRANGE", keys.named, "-", "+"),
        ]

    def checkpoints(self, session: str, reply: Sequence[Any]) -> list[Checkpoint]:
        """The checkpoints in the reply, oldest first.

        Raises:
            UnknownSession: there is no such session.
        """
        known, automatic, named = reply
        if not known:
            raise self._unknown(session)
        found = [_checkpoint(entry, automatic=True) for entry in automatic]
        found += [_checkpoint(entry, automatic=False) for entry in named]
        return sorted(found, key=lambda checkpoint: (checkpoint.at_ms, checkpoint.seq))

    def clear(self, session: str) -> Call:
        """Set the conversation aside; the system prompt stays."""
        return self._call("clear", session)

    def cleared(self, session: str, reply: int | None) -> int:
        """How many turns were in the log.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        return reply

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


def _head_messages(system: str, body: bytes | None) -> int:
    """How many messages come before those of the log."""
    stored = EMPTY
    with suppress(CorruptContext):  # `turnmill sessions` lists such a session, too
        stored = StoredContext.parse(body)
    return len(render_head(stored, system))


def _bytes_of(pictures: Iterable[Picture]) -> int:
    return sum(len(picture.data) for picture in pictures)


def _checkpoint(entry: tuple[bytes, Any], *, automatic: bool) -> Checkpoint:
    at, fields = entry
    flat = (
        fields if isinstance(fields, list) else [part for pair in fields.items() for part in pair]
    )
    values = dict(zip(flat[::2], flat[1::2], strict=True))
    return Checkpoint(
        id=values[b"id"].decode(),
        seq=Seq(int(values[b"seq"])),
        version=Version(int(values[b"version"])),
        message=values[b"message"].decode(),
        at_ms=int(at.partition(b"-")[0]),
        automatic=automatic,
    )


def _scored(reply: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Members with scores, as redis-py parsed them or as one flat list."""
    if reply and not isinstance(reply[0], bytes):
        return [(name, float(score)) for name, score in reply]
    return [(name, float(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]
