"""Builds script calls and parses their replies; no I/O. Both clients are this plus an ``await``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from turnmill import lua
from turnmill.contract.codec import sendable
from turnmill.contract.context import EMPTY, StoredContext
from turnmill.contract.correction import Told
from turnmill.contract.errors import (
    CorruptContext,
    InvalidInput,
    InvalidPolicy,
    InvalidTurn,
    NewerFormat,
    SystemPromptTooLarge,
    UnknownPolicy,
    UnknownSession,
)
from turnmill.contract.estimate import Exact, bound_by_bytes
from turnmill.contract.formats import as_corrupt
from turnmill.contract.image_tokens import ImageRef
from turnmill.contract.images import DEFAULT_MAX_IMAGE_BYTES, StoredImage, take_images
from turnmill.contract.keys import (
    SHARDS,
    SessionKeys,
    policies_key,
    registered_channel,
    registry_keys,
    session_keys,
    shard_keys,
)
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import (
    MAX_SEQ,
    Namespace,
    Seq,
    SessionId,
    Version,
    namespace,
    policy_name,
    session_id,
    template_name,
)
from turnmill.contract.policy import (
    MIN_ROOM_TOKENS,
    Policy,
    policy_body,
    refuse_slips,
    stored_policy,
)
from turnmill.contract.render import render_head, system_message
from turnmill.contract.results import (
    Checkpoint,
    ContextInfo,
    Forgotten,
    ParkedSession,
    SessionPage,
    Wait,
    Waits,
)
from turnmill.contract.rules import UNMARKED, Rule, Said, with_marked
from turnmill.contract.scripts import Call, Command, load_script
from turnmill.contract.sealing import Digest, Secret
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike, to_turn
from turnmill.dialects.convert import turn_in_chat
from turnmill.push.push_calls import SAME_FOR_ALL, PushCall, bound_of, telling
from turnmill.push.too_large import Most, OnTooLarge, encoded
from turnmill.read.context import Context
from turnmill.read.reply import CHANGING, Known, known_in, whole_context
from turnmill.read.view import DEFAULT_POLICY, META_FIELDS, View, bound, to_int

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools


LUA = lua.__name__

T = TypeVar("T")

DEFAULT_NAME = "default"
"""The namespace's policy for sessions opened without one."""

MAX_PAGE = 1_000

MAX_DIGITS = 15

MAX_CHECKPOINT_CHARS = 200

MAX_MEMORIES = 100

MAX_MEMORY_CHARS = 100_000

_FIELDS = (
    *("parked_at", "failures", "error"),
    *("system_tokens", "tools_tokens", "context_tokens", "tail_tokens"),
)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The calls of one namespace.

    What parses a reply about a session raises ``UnknownSession`` where there is none.
    """

    namespace: Namespace
    max_turn_bytes: int = DEFAULT_MAX_TURN_BYTES
    max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES

    @classmethod
    def of(
        cls, name: str, max_turn_bytes: int, max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES
    ) -> Self:
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

    def _call(self, name: str, session: str, **args: str | bytes | int) -> Call:
        checked, keys = self._keys(session)
        script = load_script(LUA, name)
        return Call(script, script.call(keys, session=checked, **args))

    def _of(self, session: str, reply: T | None) -> T:
        """What Redis said of the session.

        Raises:
            UnknownSession: nothing: there is none.
        """
        if reply is None:
            raise UnknownSession(
                f"no session {session!r} in namespace {self.namespace!r}: never opened nor pushed "
                "to, forgotten, or expired"
            )
        return reply

    def push(
        self,
        session: str,
        turn: TurnLike,
        turn_id: str | None = None,
        *,
        told: Told | None = None,
        exact: Exact | None = None,
        under: str = "",
        on_too_large: OnTooLarge = "raise",
        new_id: Callable[[], str],
    ) -> PushCall:
        """Append a turn; one without an id gets a new one, so that a retry cannot double it.

        What counts it exactly gives its bound. ``under`` names the prefix its agent last read.
        """
        name, keys = self._keys(session)
        dialect, in_chat = turn_in_chat(turn)
        value, images = take_images(to_turn(in_chat, turn_id=turn_id), keys.blob)
        most = Most(self.max_turn_bytes, self.max_image_bytes)
        made = encoded(value, images, most, on_too_large=on_too_large, under=under)
        chosen = value.turn_id or new_id()
        script = load_script(LUA, "push")
        words = script.call(
            keys,
            [word for p in made.images for word in (p.ref.sha256, p.ref.media_type)],
            session=name,
            turn_id=chosen,
            messages=Secret(made.messages),
            fields=Secret(made.fields),
            digest=Digest.of(made.messages, made.fields),
            content=made.content,
            is_new_id=int(not value.turn_id),
            **bound_of(made.messages, exact),
            **SAME_FOR_ALL,
            dialect=dialect or "",
            **telling(told),
        )
        given = made.messages if value.turn_id else b""
        return PushCall(Call(script, words), name, chosen, made.images, cut=made.cut, given=given)

    def logged(self, session: str, seq: int) -> Command:
        """The turn at this position, while the log has it."""
        _, keys = self._keys(session)
        return ("XRANGE", keys.log, seq, seq)

    def push_many(
        self,
        turns: Iterable[tuple[str, TurnLike, Exact | None]],
        *,
        under: Callable[[str], str],
        on_too_large: OnTooLarge = "raise",
        new_id: Callable[[], str],
    ) -> list[PushCall]:
        """One push per (session, turn, its count); all are checked before any is sent."""
        calls = []
        known: dict[str, StoredImage] = {}  # an image in many turns is in memory once
        for at, (session, turn, exact) in enumerate(turns):
            try:
                push = self.push(
                    session,
                    turn,
                    exact=exact,
                    under=under(session),
                    on_too_large=on_too_large,
                    new_id=new_id,
                )
            except InvalidInput as error:
                raise type(error)(f"turns[{at}]: {error}") from None
            images = tuple(known.setdefault(each.key, each) for each in push.images)
            calls.append(push._replace(images=images))
        return calls

    def open(
        self,
        session: str,
        policy: Policy | None,
        system_prompt: str | None,
        policy_name: str = "",
        tools: Tools | None = None,
    ) -> Call:
        """Create a session, or change what is given; None leaves it as it is.

        The script weighs system prompt and tools by an upper bound. If the bound leaves it in
        doubt, ``is_refused`` is true of the reply, and ``open_finally`` settles it.
        """
        name, keys = self._keys(session)
        if policy is not None:
            policy = _valid(policy)
            if not policy_name:  # what the namespace has was told of when it was put there
                refuse_slips(policy)
        chosen = policy or DEFAULT_POLICY
        words = load_script(LUA, "open").call(
            keys,
            session=name,
            policy=policy_body(policy) if policy else "",
            policy_name=policy_name,
            hard=chosen.limits(0).hard,
            ttl_ms=chosen.ttl_s * 1000,
            checkpoint_every=chosen.checkpoint_interval,
            keep_checkpoints=chosen.keep_checkpoints,
            **_weighed(system_prompt, tools),
            is_final=0,
            min_room=MIN_ROOM_TOKENS,
        )
        return Call(load_script(LUA, "open"), words)

    @staticmethod
    def open_finally(call: Call, exact: tuple[int, int] | None) -> Call:
        """The same call with exact counts of prompt and tools; without, upper bounds decide."""
        script, words = call
        known = {"is_final": 1}
        if exact is not None:
            known["system_tokens"], known["tools_tokens"] = exact
        changed = list(words)
        for name, value in known.items():
            changed[1 + len(script.keys) + script.args.index(name)] = value
        return Call(script, changed)

    @staticmethod
    def is_refused(reply: Sequence[int]) -> bool:
        """Whether nothing was changed: prompt and tools leave no room, or that is in doubt."""
        return reply[0] == 0

    @staticmethod
    def opened(reply: Sequence[int]) -> bool:
        """Whether the workers want a hint.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room; nothing was changed.
        """
        if Commands.is_refused(reply):
            _, tokens, limit = reply
            raise SystemPromptTooLarge(
                f"system_prompt and tools: up to {tokens} tokens, and a conversation needs "
                f"{MIN_ROOM_TOKENS} more; the policy's hard limit is {limit}"
            )
        return bool(reply[1])

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
        return stored_policy(reply)

    def put_policy(self, name: str, policy: Policy) -> Command:
        """Give the namespace a policy under a name."""
        valid = _valid(policy)
        refuse_slips(valid)
        body = policy_body(valid)
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
        return {name.decode(): stored_policy(body) for name, body in sorted(pairs)}

    def exists(self, session: str) -> Command:
        """Asks whether there is such a session."""
        return ("EXISTS", self._keys(session)[1].meta)

    def policy_followed(self, session: str) -> Command:
        """Asks whether the session has a policy, and under what name."""
        return ("HMGET", self._keys(session)[1].meta, "policy", "policy_name")

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

    def read_on(self, session: str, since: str, awaited: Sequence[int] = ()) -> list[Command]:
        """The same for who knows the rest: numbers, and the turns from this one on.

        Of turns whose counts are ``awaited``, those too.
        """
        _, keys = self._keys(session)
        counts: list[Command] = [("HMGET", keys.counts, *awaited)] if awaited else []
        return [
            ("HMGET", keys.meta, *CHANGING),
            ("XRANGE", keys.log, since, "+"),
            *counts,
            ("HMGET", keys.meta, *META_FIELDS[:2]),
        ]

    @staticmethod
    def is_torn(reply: Sequence[Any]) -> bool:
        """Whether a commit came between the commands of a read: then read again.

        Pushes and counts may come between: a later turn is simply there, and a later count only
        makes the bound of a turn exact.
        """
        return list(reply[0][:2]) != list(reply[-1])

    def known(self, session: str, reply: Sequence[Any]) -> Known:
        """What is in the reply to a whole read."""
        self._of(session, reply[0][0])
        return known_in(SessionId(session), reply)

    def context(self, session: str, reply: Sequence[Any], beside: int = 0) -> Context:
        """The context in the reply to a whole read, projected when it is over the hard limit.

        ``beside`` are tokens of the request that the session was not told of.
        """
        return whole_context(self.known(session, reply), beside)

    @as_corrupt()
    def rules(self, session: str, reply: Sequence[Any]) -> tuple[Rule, ...]:
        """The user's rules in a read's reply, oldest first: those of the commit and marked ones."""
        meta, body, _, entries, _ = reply
        self._of(session, meta[0])
        marked = [entry for entry in map(LogEntry.of, entries) if entry.mark != UNMARKED]
        turns = decode_turns([entry.messages for entry in marked])
        said = (Said(e.seq, messages, e.mark) for e, messages in zip(marked, turns, strict=True))
        return with_marked(StoredContext.parse(body).rules, said)

    def fetch(self, session: str, refs: Sequence[ImageRef]) -> list[Command]:
        """The bytes of images."""
        _, keys = self._keys(session)
        return [("GET", f"{keys.blob}{ref.sha256}") for ref in refs]

    def info(self, session: str) -> Call:
        """The session's numbers."""
        name, keys = self._keys(session)
        script = load_script(LUA, "info")
        return Call(script, script.call(keys, session=name))

    @as_corrupt()
    def context_info(self, session: str, reply: list[Any] | None) -> ContextInfo:
        """The numbers in an info call's reply."""
        found = self._of(session, reply)
        flat, body, pending, pending_bytes, log, messages, covered, *moments = found
        meta = dict(zip(flat[::2], flat[1::2], strict=True))
        view = View.of([meta.get(name) for name in META_FIELDS])
        known = view.correction
        messages += to_int(meta.get(b"messages")) + _head_messages(view.system, body)
        return ContextInfo(
            session=SessionId(session),
            namespace=self.namespace,
            version=Version(to_int(meta.get(b"version"))),
            watermark=Seq(to_int(meta.get(b"watermark"))),
            last_seq=view.last_seq,
            counted_seq=view.counted_seq,
            usage=(usage := known.usage(view.with_pending(pending, pending_bytes))),
            tools_tokens=known.corrected(view.tools_tokens),
            correction=known,
            basis=view.basis,
            limits=view.policy.limits(usage.system, 1.0),
            policy=view.policy,
            pending_bytes=pending_bytes,
            total_messages=messages,
            turns_in_log=log,
            turns_covered=covered,
            compactions=to_int(meta.get(b"compactions")),
            interactions=to_int(meta.get(b"interactions")),
            images=to_int(meta.get(b"images")),
            history_tokens=to_int(meta.get(b"history_tokens")),
            quality=float(meta[b"quality"]) if meta.get(b"quality") else None,
            settings=to_int(meta.get(b"settings")),
            policy_name=meta.get(b"policy_name", b"").decode(),
            failures=to_int(meta.get(b"failures")),
            parent=meta.get(b"parent", b"").decode(),
            **_waits(meta, *moments),
        )

    def forget(self, session: str) -> Call:
        """Remove the session."""
        return self._call("forget", session)

    @staticmethod
    def forgotten(reply: Sequence[int]) -> Forgotten:
        """What forgetting removed."""
        return Forgotten(existed=bool(reply[0]), keys_left=reply[1])

    def registration(self, pushes: int) -> Call:
        """Has the workers list the namespace for the sweep, and tells of so many pushes."""
        script, keys = load_script(LUA, "register"), registry_keys(self.namespace)
        channel = registered_channel(self.namespace)
        return Call(script, script.call(keys, channel=channel, pushes=pushes))

    def index_keys(self) -> list[str]:
        """The keys that list this namespace's sessions."""
        return [shard_keys(self.namespace, shard).index for shard in range(SHARDS)]

    @staticmethod
    def sessions(replies: Sequence[Sequence[Any]]) -> list[SessionId]:
        """All sessions, the most recently pushed first."""
        return [SessionId(name.decode()) for _, name in _newest_first(replies)]

    def list_page(self, after: str, limit: int) -> list[Command]:
        """The most recently pushed sessions of each shard: twice its share of the page, and more.

        Raises:
            InvalidInput: there is no such page.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"limit: must be 1 to {MAX_PAGE:,}, not {limit:,}")
        keys = self.index_keys()
        newest = ("-inf", "BYSCORE", "REV", "LIMIT", 0, _of_a_shard(limit), "WITHSCORES")
        if not after:
            return [("ZRANGE", key, "+inf", *newest) for key in keys]
        at_ms, _ = _place(after)
        at_once = [("ZRANGE", key, at_ms, at_ms, "BYSCORE", "WITHSCORES") for key in keys]
        return [*at_once, *(("ZRANGE", key, f"({at_ms}", *newest) for key in keys)]

    @staticmethod
    def page(replies: Sequence[Sequence[Any]], after: str, limit: int) -> SessionPage:
        """The page in the replies to its commands."""
        found = _newest_first(replies)
        if after:
            found = [each for each in found if each < _place(after)]
        # A shard that gave all it was asked for may have more after the last: no page goes past it.
        full = [each for each in map(_scored, replies[-SHARDS:]) if len(each) == _of_a_shard(limit)]
        end = max(((at_ms, name) for *_, (name, at_ms) in full), default=(-1.0, b""))
        shown = [each for each in found if each > end][:limit]
        names = [SessionId(name.decode()) for _, name in shown]
        is_last = len(found) == len(shown)
        return SessionPage(
            sessions=names, after=None if is_last else f"{shown[-1][0]:.0f}:{names[-1]}"
        )

    def checkpoint(self, session: str, message: str, name: str) -> Call:
        """Remember the context as it is now.

        Raises:
            InvalidInput: the message or the name is too long, or not text.
        """
        for field, value in (("message", message), ("name", name)):
            if not isinstance(value, str) or len(value) > MAX_CHECKPOINT_CHARS:
                raise InvalidInput(
                    f"{field}: must be a str of at most {MAX_CHECKPOINT_CHARS} characters"
                )
        return self._call(
            "checkpoint",
            session,
            id=sendable(name).encode(),
            message=Secret(sendable(message).encode()),
            keep_checkpoints=DEFAULT_POLICY.keep_checkpoints,
        )

    def checkpointed(self, session: str, reply: bytes | None) -> str | None:
        """The id of the checkpoint made, or None where the policy keeps none."""
        return self._of(session, reply).decode() or None

    def list_checkpoints(self, session: str) -> list[Command]:
        """All checkpoints of the session."""
        _, keys = self._keys(session)
        return [
            ("EXISTS", keys.meta),
            ("XRANGE", keys.checkpoints, "-", "+"),
            ("XRANGE", keys.named, "-", "+"),
        ]

    def checkpoints(self, session: str, reply: Sequence[Any]) -> list[Checkpoint]:
        """The checkpoints in the reply, oldest first."""
        known, automatic, named = reply
        self._of(session, known or None)
        found = [_checkpoint(entry, automatic=True) for entry in automatic]
        found += [_checkpoint(entry, automatic=False) for entry in named]
        return sorted(found, key=lambda checkpoint: (checkpoint.at_ms, checkpoint.seq))

    def clear(self, session: str, *, new_id: Callable[[], str]) -> Call:
        """Set the conversation aside; the system prompt stays."""
        return self._call("clear", session, commit_id=new_id())

    def cleared(self, session: str, reply: int | None) -> int:
        """How many turns were in the log."""
        return self._of(session, reply)

    @staticmethod
    def rollback(to: str | int | None) -> dict[str, Any]:
        """The request for an earlier state.

        Raises:
            InvalidInput: ``to`` is neither a checkpoint's id nor a version.
        """
        if isinstance(to, bool) or not isinstance(to, str | int | None):
            kind = type(to).__name__
            raise InvalidInput(f"to: must be a checkpoint's id, a version or None, got {kind}")
        return {"to": to}

    @staticmethod
    def fork(new_session: str, at: str | int | None) -> dict[str, Any]:
        """The request to begin a session as another was.

        Raises:
            InvalidName: no session can have this name.
            InvalidInput: ``at`` is no seq and no id.
        """
        return {"fork": session_id(new_session), "at": None if at is None else _turn(at)}

    def parent_of(self, session: str) -> Command:
        """Asks whether there is such a session, and whose child it is."""
        return ("HMGET", self._keys(session)[1].meta, "epoch", "parent")

    def child(
        self, session: str, parent: str, policy: Policy | None, found: Sequence[bytes | None]
    ) -> dict[str, Any] | None:
        """The request to begin a session as another's child; None where it is one already.

        Raises:
            InvalidName: no session can have this name.
            InvalidInput: there is such a session, and it is no child of that one.
        """
        epoch, of = found
        if epoch is None:
            body = policy_body(policy).decode() if policy else ""
            return {"child": session_id(session), "policy": body}
        if of != session_id(parent).encode():
            raise InvalidInput(
                f"there is a session {session!r} that is no child of {parent!r}: a child begins "
                "with its parent's rules, so it must be a new one"
            )
        return None

    @staticmethod
    def rewind(at: str | int) -> dict[str, Any]:
        """The request to go back to before a turn; raises as ``fork``."""
        return {"rewind": _turn(at)}

    @staticmethod
    def summarize(template: str) -> dict[str, Any]:
        """The request for a summary; without a template, the policy decides how it is made.

        Raises:
            InvalidName: no template can have this name.
        """
        return {"template": template_name(template) if template != "" else ""}

    @staticmethod
    def turn(seq: int) -> dict[str, Any]:
        """The request for one turn.

        Raises:
            InvalidInput: no turn can have this number.
        """
        if isinstance(seq, bool) or not isinstance(seq, int) or not 1 <= seq <= MAX_SEQ:
            got = seq if isinstance(seq, int) else f"of type {type(seq).__name__}"
            raise InvalidInput(f"seq {got} must be a whole number from 1 on")
        return {"turn": seq}

    @staticmethod
    def ground(query: str, k: int, session: str | None = None) -> dict[str, Any]:
        """The request for memories that help with a query, of all sessions or of one.

        Raises:
            InvalidInput: ``query`` is not text, or ``k`` is not a number one may ask for.
            InvalidName: no session can have this name.
        """
        if not isinstance(query, str):
            raise InvalidInput(f"query: must be a str, got {type(query).__name__}")
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_MEMORIES:
            got = k if isinstance(k, int) else f"of type {type(k).__name__}"
            raise InvalidInput(f"k {got} must be in 1..{MAX_MEMORIES}")
        request = {"query": query, "k": k}
        return request if session is None else {**request, "session": session_id(session)}

    @staticmethod
    def remember(text: str) -> dict[str, Any]:
        """The request to remember a text.

        Raises:
            InvalidInput: not text, empty, or longer than a memory may be.
        """
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text: must be a str that is not blank")
        if len(text) > MAX_MEMORY_CHARS:
            raise InvalidInput(
                f"text: {len(text)} characters; a memory has at most {MAX_MEMORY_CHARS}"
            )
        return {"text": text}

    def list_compactions(self, sessions: Iterable[SessionId]) -> list[Command]:
        """The records of the sessions' compactions, the newest thousand of each."""
        keys = [session_keys(self.namespace, name).compactions for name in sessions]
        return [("XRANGE", key, "-", "+") for key in keys]

    @staticmethod
    @as_corrupt()
    def compactions(replies: Iterable[Iterable[Any]]) -> list[tuple[int, bytes]]:
        """When each compaction was, ms since 1970, and its record."""
        entries = [_entry(each) for reply in replies for each in reply]
        return [(at_ms, fields[b"record"]) for at_ms, fields in entries]

    def list_parked(self) -> list[Command]:
        """The names of all parked sessions."""
        keys = [shard_keys(self.namespace, shard).parked for shard in range(SHARDS)]
        return [("ZRANGE", key, 0, -1) for key in keys]

    @staticmethod
    def parked_names(replies: Sequence[Sequence[bytes]]) -> list[SessionId]:
        """The names in the replies."""
        return [SessionId(name.decode()) for reply in replies for name in reply]

    def look_at_parked(self, names: Sequence[SessionId]) -> list[Command]:
        """What is known about these sessions."""
        keys = [session_keys(self.namespace, name).meta for name in names]
        return [("HMGET", key, *_FIELDS) for key in keys]

    @staticmethod
    def parked(names: Sequence[SessionId], replies: Sequence[Sequence[Any]]) -> list[ParkedSession]:
        """The sessions that are still parked, the longest parked first."""
        found = [
            ParkedSession(
                session=name,
                since_ms=to_int(at),
                failures=to_int(failures),
                error=(error or b"").decode("utf-8", "replace"),
                tokens=sum(to_int(part) for part in tokens),
            )
            for name, (at, failures, error, *tokens) in zip(names, replies, strict=True)
            if at is not None
        ]
        return sorted(found, key=lambda each: (each.since_ms, each.session))

    def retry(self, session: str) -> Call:
        """Let the workers compact the session again."""
        return self._call("retry", session)

    def retried(self, session: str, reply: int | None) -> bool:
        """Whether the session was parked."""
        return bool(self._of(session, reply))


def _weighed(system_prompt: str | None, tools: Tools | None) -> dict[str, str | bytes | int]:
    """System prompt and tools as the script takes them, bounded."""
    if system_prompt is not None and not isinstance(system_prompt, str):
        raise InvalidTurn(f"system_prompt: must be a str, got {type(system_prompt).__name__}")
    tokens = bound([system_message(system_prompt)]) if system_prompt else 0
    schemas, most, in_bytes = _schemas(tools) if tools is not None else (b"", 0, 0)
    return {
        "has_system": int(system_prompt is not None),
        "system": Secret(sendable(system_prompt or "").encode()),
        "system_tokens": tokens,
        "has_tools": int(tools is not None),
        "tools": Secret(schemas),
        "tools_tokens": most,
        "tools_bound": most,
        "tools_bytes": in_bytes,
    }


def _schemas(tools: Tools) -> tuple[bytes, int, int]:
    """The tools as they are stored, and their bounds: the session's encoding may not be known."""
    from turnmill.contract.tools import bound_tools, tools_body  # noqa: PLC0415 - few tell of any

    body = tools_body(tools)
    return body, bound_tools(body), bound_tools(body, bound_by_bytes)


def _valid(policy: object) -> Policy:
    """The policy as every read will load it: ``model_copy(update=…)`` checks nothing.

    Raises:
        InvalidPolicy: this is not a policy, or a field is wrong; nothing was sent.
    """
    if not isinstance(policy, Policy):
        raise InvalidPolicy(
            f"policy: must be a Policy, got {type(policy).__name__}; Policy(**fields) makes one"
        )
    return Policy(**policy.model_dump(warnings=False))


def _waits(
    meta: Mapping[bytes, bytes], waiting: bytes | None, due: bytes | None, leased: int, now_ms: int
) -> dict[str, Any]:
    """What the session waits for, and for how long."""
    return {
        "pending_for_s": _waited_s(waiting, now_ms),
        "due_in_s": None if due is None else (float(due) - now_ms) / 1000,
        "parked_for_s": _seconds_since(meta.get(b"parked_at"), now_ms),
        "wait": _wait(meta, now_ms, leased=bool(leased)),
    }


def _waited_s(since_ms: bytes | None, now_ms: float) -> float | None:
    """Seconds for which turns have waited; None while nobody needs to count them yet."""
    if since_ms is None or float(since_ms) > now_ms:
        return None
    return (now_ms - float(since_ms)) / 1000


def _wait(meta: Mapping[bytes, bytes], now_ms: float, *, leased: bool) -> Wait | None:
    """What keeps the session from being compacted, as workers noted it."""
    on = "worker" if leased else meta.get(b"waits", b"").decode()
    if not on:
        return None
    why = meta.get(b"waits_why", b"").decode()
    return Wait(
        on=cast("Waits", on),
        for_s=_seconds_since(meta.get(b"waits_at"), now_ms),
        failed=tuple(why.split(",")) if why else (),
        tries=to_int(meta.get(b"model_failures")),
    )


def _seconds_since(at_ms: bytes | None, now_ms: float) -> float | None:
    return None if at_ms is None else max(now_ms - float(at_ms), 0.0) / 1000


def _head_messages(system: str, body: bytes | None) -> int:
    """How many messages come before those of the log."""
    stored = EMPTY
    with suppress(CorruptContext, NewerFormat):  # `turnmill sessions` lists such a session, too
        stored = StoredContext.parse(body)
    return len(render_head(stored, system))


def _of_a_shard(limit: int) -> int:
    """How many sessions of a shard a page asks for; they spread evenly over shards."""
    return min(limit, 2 * limit // SHARDS + 16) + 1


def _newest_first(replies: Iterable[Sequence[Any]]) -> list[tuple[float, bytes]]:
    """When each session was pushed to last, in ms, and its name; as Redis orders them."""
    found = [(at_ms, name) for reply in replies for name, at_ms in _scored(reply)]
    return sorted(found, reverse=True)


def _place(after: str) -> tuple[int, bytes]:
    """Where a page ended, as ``SessionPage.after`` says it."""
    at_ms, found, name = after.partition(":")
    if not (found and at_ms.isascii() and at_ms.isdecimal() and len(at_ms) <= MAX_DIGITS):
        raise InvalidInput("after: must be what the page before said, or left out for the first")
    return int(at_ms), name.encode("utf-8", "replace")


def _scored(reply: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Members with scores, as redis-py parsed them or as one flat list."""
    if reply and not isinstance(reply[0], bytes):
        return [(name, float(score)) for name, score in reply]
    return [(name, float(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]


def _checkpoint(entry: tuple[bytes, Any], *, automatic: bool) -> Checkpoint:
    at_ms, values = _entry(entry)
    return Checkpoint(
        id=values[b"id"].decode(),
        seq=Seq(int(values[b"seq"])),
        version=Version(int(values[b"version"])),
        message=values[b"message"].decode(),
        at_ms=at_ms,
        automatic=automatic,
    )


def _entry(entry: tuple[bytes, Any]) -> tuple[int, dict[bytes, bytes]]:
    """When a stream's entry was added, ms since 1970, and its fields; parsed by redis-py or not."""
    at, fields = entry
    flat = fields if isinstance(fields, list) else None
    values = fields if flat is None else dict(zip(flat[::2], flat[1::2], strict=True))
    return int(at.partition(b"-")[0]), values


def _turn(at: str | int) -> str | int:
    if isinstance(at, bool) or not isinstance(at, str | int):
        raise InvalidInput(f"at: must be a turn's seq or id, got {type(at).__name__}")
    return at
