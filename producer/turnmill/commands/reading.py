"""Reading contexts and numbers, listing sessions, forgetting them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from turnmill.commands.calls import LUA, Base, Call, Command
from turnmill.context import Context
from turnmill.contract.context import EMPTY, StoredContext
from turnmill.contract.errors import CorruptContext, NewerFormat
from turnmill.contract.formats import as_corrupt
from turnmill.contract.images.token_cost import ImageRef
from turnmill.contract.info import ContextInfo, Wait, Waits
from turnmill.contract.keys import SHARDS, shard_keys
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.registry import registered_channel, registry_keys
from turnmill.contract.render import render_head
from turnmill.contract.results import Forgotten
from turnmill.contract.rules import UNMARKED, Rule, Said, with_marked
from turnmill.contract.scripts import load_script
from turnmill.read_reply import (
    CHANGING,
    META_FIELDS,
    Known,
    View,
    known_in,
    to_int,
    whole_context,
)

__all__ = ["Reading"]


class Reading(Base):
    """Looking at sessions, and removing them."""

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
        """What is in the reply to a whole read.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply[0][0] is None:
            raise self._unknown(session)
        return known_in(SessionId(session), reply)

    def context(self, session: str, reply: Sequence[Any], beside: int = 0) -> Context:
        """The context in the reply to a whole read, projected when it is over the hard limit.

        ``beside`` are tokens of the request that the session was not told of.

        Raises:
            UnknownSession: there is no such session.
        """
        return whole_context(self.known(session, reply), beside)

    @as_corrupt()
    def rules(self, session: str, reply: Sequence[Any]) -> tuple[Rule, ...]:
        """The user's rules in a read's reply, oldest first: those of the commit and marked ones.

        Raises:
            UnknownSession: there is no such session.
        """
        meta, body, _, entries, _ = reply
        if meta[0] is None:
            raise self._unknown(session)
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
        """The numbers in an info call's reply.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        flat, body, pending, pending_bytes, log, messages, covered, *moments = reply
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
        found = [entry for reply in replies for entry in _scored(reply)]
        return [SessionId(name.decode()) for name, _ in sorted(found, key=lambda e: (-e[1], e[0]))]


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


def _scored(reply: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Members with scores, as redis-py parsed them or as one flat list."""
    if reply and not isinstance(reply[0], bytes):
        return [(name, float(score)) for name, score in reply]
    return [(name, float(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]
