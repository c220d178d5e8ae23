"""What Redis keys show beyond the client's methods: of one namespace, and of all together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import redis

from turnmill.client.commands import Commands
from turnmill.connection.cluster import ClusterClient
from turnmill.connection.transport import redis_now_ms
from turnmill.contract.codec import decode_json
from turnmill.contract.errors import (
    CorruptContext,
    InvalidName,
    InvalidPolicy,
    NewerFormat,
    UnknownSession,
)
from turnmill.contract.estimate import file_of
from turnmill.contract.keys import (
    ENDPOINTS,
    NAMESPACES,
    QUARANTINED,
    QUARANTINED_COUNT,
    REGISTERED_PATTERN,
    RESTING,
    SHARDS,
    SUMMARIZERS,
    SUMMARIZERS_MS,
    TROUBLED,
    ShardKeys,
    commits_channel,
    endpoint_keys,
    named_by,
    registry_keys,
    session_keys,
    shard_keys,
)
from turnmill.contract.names import Namespace, SessionId, namespace, session_id
from turnmill.contract.policy import OFFLINE, Policy, stored_policy
from turnmill.contract.results import ContextInfo
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES

SESSIONS_AT_ONCE = 200
"""Sessions per round trip."""


class Waiting(NamedTuple):
    """How many sessions wait in a list, and how long the oldest of them has waited."""

    sessions: int
    oldest_s: float


class Positions(NamedTuple):
    """How far a session has come, in one incarnation."""

    epoch: str
    last_seq: int
    version: int


class StoredSession(NamedTuple):
    """What the keys of one session hold: entries of its streams, and commits as JSON."""

    log: list[tuple[bytes, dict[bytes, bytes]]]
    covered: list[tuple[bytes, dict[bytes, bytes]]]
    watermark: int
    records: list[dict[str, Any]]


class RedisView:
    """Looks at the keys of a namespace; changes nothing. Raises what redis-py raises."""

    def __init__(self, client: redis.Redis, namespace: Namespace) -> None:
        self.client: Any = client
        self.namespace = namespace
        self._shards: list[ShardKeys] = [shard_keys(namespace, shard) for shard in range(SHARDS)]

    def servers(self) -> list[tuple[str, dict[str, Any]]]:
        """What INFO says of each server that holds sessions, by its address in a Cluster."""
        if isinstance(self.client, ClusterClient):
            return [(where, server.info()) for where, server in self.client.servers()]
        return [("", self.client.info())]

    def sizes(self, *lists: str) -> list[int]:
        """How many sessions are in each of these lists, such as ``index`` or ``due``."""
        with self.client.pipeline(transaction=False) as pipe:
            for name in lists:
                for keys in self._shards:
                    pipe.zcard(getattr(keys, name))
            found: list[int] = pipe.execute()
        return [sum(found[at : at + SHARDS]) for at in range(0, len(found), SHARDS)]

    def waiting(self, name: str) -> Waiting:
        """The sessions in a list that is ordered by since when they wait, but for those to come."""
        now_ms = redis_now_ms(self.client)
        with self.client.pipeline(transaction=False) as pipe:
            for keys in self._shards:
                pipe.zcount(getattr(keys, name), "-inf", now_ms)
                pipe.zrange(getattr(keys, name), 0, 0, withscores=True)
            replies = pipe.execute()
        since_ms = [oldest[0][1] for oldest in replies[1::2] if oldest]
        oldest_s = max(now_ms - min(since_ms, default=now_ms), 0) / 1000
        return Waiting(sum(replies[::2]), oldest_s)

    def newest_sessions(self, most_per_shard: int = 0) -> list[tuple[SessionId, float]]:
        """Sessions and when each was last pushed to, in ms; the newest first. 0 is all of them."""
        with self.client.pipeline(transaction=False) as pipe:
            for keys in self._shards:
                pipe.zrange(keys.index, 0, most_per_shard - 1, desc=True, withscores=True)
            found = [entry for reply in pipe.execute() for entry in reply]
        found.sort(key=lambda entry: (-entry[1], entry[0]))
        return [(SessionId(name.decode()), at_ms) for name, at_ms in found]

    def infos(self, sessions: Sequence[SessionId]) -> Iterator[ContextInfo]:
        """The sessions in numbers, without those that have expired meanwhile."""
        commands = Commands.of(self.namespace, DEFAULT_MAX_TURN_BYTES)
        for start in range(0, len(sessions), SESSIONS_AT_ONCE):
            chunk = sessions[start : start + SESSIONS_AT_ONCE]
            calls = [commands.info(name) for name in chunk]
            with self.client.pipeline(transaction=False) as pipe:
                for call in calls:
                    pipe.execute_command("EVAL", call.script.source, *call.words)
                replies = pipe.execute(raise_on_error=False)
            for name, reply in zip(chunk, replies, strict=True):
                if isinstance(reply, redis.RedisError):
                    raise reply
                try:
                    yield commands.context_info(name, reply)
                except UnknownSession:
                    continue

    def positions(self, sessions: Sequence[SessionId]) -> dict[SessionId, Positions]:
        """How far each has come; nothing of those that are gone."""
        found: dict[SessionId, Positions] = {}
        for start in range(0, len(sessions), SESSIONS_AT_ONCE):
            chunk = sessions[start : start + SESSIONS_AT_ONCE]
            with self.client.pipeline(transaction=False) as pipe:
                for name in chunk:
                    meta = session_keys(self.namespace, name).meta
                    pipe.hmget(meta, "epoch", "last_seq", "version")
                replies = pipe.execute()
            for name, (epoch, *numbers) in zip(chunk, replies, strict=True):
                if epoch:
                    found[name] = Positions(epoch.decode(), *(int(each or 0) for each in numbers))
        return found

    def summarizers_of(self, sessions: Sequence[SessionId]) -> list[str]:
        """The summarizer each session's policy names; the offline one where none can be read."""
        return [_field(policy, "summarizer", OFFLINE) for policy in self._policies(sessions)]

    def encodings_of(self, sessions: Sequence[SessionId]) -> list[str]:
        """The encoding each session's policy names; empty where none can be read."""
        return [_field(policy, "encoding", "") for policy in self._policies(sessions)]

    def policies_of(self, sessions: Sequence[SessionId]) -> list[Policy]:
        """The different policies of the sessions, without those that cannot be read."""
        found: list[Policy] = []
        for body in dict.fromkeys(self._policies(sessions)):
            with suppress(CorruptContext, InvalidPolicy, NewerFormat):
                found += [stored_policy(body)] if body else []
        return found

    def _policies(self, sessions: Sequence[SessionId]) -> list[bytes | None]:
        with self.client.pipeline(transaction=False) as pipe:
            for name in sessions:
                pipe.hget(session_keys(self.namespace, name).meta, "policy")
            found: list[bytes | None] = pipe.execute()
            return found

    def summarizer_workers(self) -> list[dict[str, Any]]:
        """What each worker of the queue summarize said of itself within the last minute."""
        since_ms = redis_now_ms(self.client) - SUMMARIZERS_MS
        found = self.client.zrangebyscore(SUMMARIZERS, since_ms, "+inf")
        return [json.loads(entry) for entry in found]

    def model_gates(self) -> list[dict[str, str]]:
        """The fields of the gate of each model that has ever been asked, in every namespace."""
        with self.client.pipeline(transaction=False) as pipe:
            for name in self.client.zrange(ENDPOINTS, 0, -1):
                pipe.hgetall(endpoint_keys(name.decode()).gate)
            gates = pipe.execute()
        return [
            {name.decode(): value.decode("utf-8", "replace") for name, value in gate.items()}
            for gate in gates
        ]

    def troubled(self) -> dict[str, Any]:
        """What sweeps of the last minutes found wrong, in every namespace."""
        found: dict[str, Any] = json.loads(self.client.get(TROUBLED) or '{"count": 0, "named": {}}')
        return found

    def quarantined(self) -> tuple[int, dict[str, Any] | None]:
        """How many messages of the broker were ever put aside, and the newest of them."""
        newest = self.client.lrange(QUARANTINED, 0, 0)
        total = int(self.client.get(QUARANTINED_COUNT) or 0)
        return total, json.loads(newest[0]) if newest else None

    def over_quota(self) -> dict[str, tuple[int, int]]:
        """The namespace's quotas that are used up: use and limit, as workers last measured."""
        told = self.client.hget(registry_keys(self.namespace).quota, "over")
        return dict(json.loads(told)) if told else {}

    def stored(self, session: str) -> StoredSession:
        """What is stored of a session, in one view that no commit came into."""
        keys = session_keys(self.namespace, SessionId(session))
        position = ("epoch", "version", "watermark")
        before, after = [None], [b""]
        while before != after:
            with self.client.pipeline(transaction=False) as pipe:
                pipe.hmget(keys.meta, *position)
                pipe.xrange(keys.log)
                pipe.xrange(keys.covered)
                pipe.xrange(keys.compactions)
                pipe.hmget(keys.meta, *position)
                before, log, covered, compactions, after = pipe.execute()
        watermark = after[2]
        records = [json.loads(fields[b"record"]) for _, fields in compactions]
        return StoredSession(log, covered, int(watermark or 0), records)

    def compactions(self, session: str) -> list[tuple[int, dict[str, Any]]]:
        """A session's newest compactions: when each was committed, in ms, and its record."""
        entries = self.client.xrange(session_keys(self.namespace, session_id(session)).compactions)
        return [(int(at.split(b"-")[0]), json.loads(f[b"record"])) for at, f in entries]

    def newest_compactions(
        self, sessions: Sequence[SessionId], most: int = 20
    ) -> list[dict[str, Any]]:
        """The newest records of each of the sessions' commits, with ``at_ms``."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(sessions), SESSIONS_AT_ONCE):
            with self.client.pipeline(transaction=False) as pipe:
                for name in sessions[start : start + SESSIONS_AT_ONCE]:
                    keys = session_keys(self.namespace, name)
                    pipe.xrevrange(keys.compactions, count=most)
                replies = pipe.execute()
            found += [
                {**json.loads(fields[b"record"]), "at_ms": int(at.split(b"-")[0])}
                for reply in replies
                for at, fields in reply
            ]
        return found


class CommitListener:
    """Hears of each commit in every namespace."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def heard(self) -> Iterator[dict[str, Any]]:
        """The records of commits since the last call."""
        if not self._channel.subscribed:
            self._channel.psubscribe(commits_channel(Namespace("*")))
        while message := self._channel.get_message():
            yield json.loads(message["data"])

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()


def _field(policy: bytes | None, name: str, default: str) -> str:
    try:
        return str(decode_json(policy or b"{}").get(name, default))
    except (AttributeError, ValueError):  # the session's next job says so
        return default


def unoffered(policy: Policy, workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the policy names that a worker of the queue summarize said it does not have.

    ``workers``: what they said of themselves. One that is older says nothing of a kind, and
    nothing is said of it; nor where no worker runs.
    """
    return list(dict.fromkeys(_unoffered(policy, workers)))


def _unoffered(policy: Policy, workers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for (kind, one), names in _named(policy).items():
        for worker in workers:
            if kind not in worker:
                continue
            offered: list[str] = worker[kind]
            for name in names:
                if name not in offered:
                    known = ", ".join(sorted(offered)) or "none"
                    yield f"{worker.get('node')} has no {one} {name!r}, but {known}"


def _named(policy: Policy) -> dict[tuple[str, str], list[str]]:
    """The names in a policy, by what workers call their kind, and one of it."""
    tokenizer = file_of(policy.encoding)
    return {
        ("strategies", "strategy"): list(policy.strategies),
        ("templates", "template"): [policy.template] if "managed" in policy.strategies else [],
        ("tokenizers", "tokenizer"): [tokenizer] if tokenizer else [],
    }


# --- all namespaces -------------------------------------------------------------------------------

NAMESPACES_AT_ONCE = 10
"""Namespaces per round trip."""

SCANNED = 1_000


class Counts(NamedTuple):
    """How many sessions there are, wait to be counted, and are due."""

    sessions: int = 0
    backlog: int = 0
    due: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class NamespacesView:
    """Counts over all namespaces that workers know of."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._resting: dict[Namespace, Counts] = {}
        self.known = 0
        """How many namespaces were counted last."""

    def counts(self) -> Counts:
        """The counts now. Where a namespace rests, nothing changes: it is looked at once."""
        busy, resting = (_members(self._client, key) for key in (NAMESPACES, RESTING))
        self._resting = {name: found for name, found in self._resting.items() if name in resting}
        self._resting.update(self._of(resting - self._resting.keys()))
        total = Counts()
        for found in (*self._of(busy - resting).values(), *self._resting.values()):
            total = total.plus(found)
        self.known = len(busy | resting)
        return total

    def commits(self) -> CommitListener:
        """The commits announced from now on, in every namespace."""
        return CommitListener(self._client.pubsub(ignore_subscribe_messages=True))

    def _of(self, names: Iterable[Namespace]) -> dict[Namespace, Counts]:
        found: dict[Namespace, Counts] = {}
        now_ms = redis_now_ms(self._client)
        waiting = iter(names)
        while chunk := list(islice(waiting, NAMESPACES_AT_ONCE)):
            with self._client.pipeline(transaction=False) as pipe:
                for name in chunk:
                    for keys in (shard_keys(name, shard) for shard in range(SHARDS)):
                        pipe.zcard(keys.index)
                        pipe.zcount(keys.backlog, "-inf", now_ms)
                        pipe.zcount(keys.due, "-inf", now_ms)
                # What is no list counts for none: `doctor` tells of it.
                replies = [
                    reply if isinstance(reply, int) else 0
                    for reply in pipe.execute(raise_on_error=False)
                ]
            for number, name in enumerate(chunk):
                each = replies[number * 3 * SHARDS : (number + 1) * 3 * SHARDS]
                found[name] = Counts(*(sum(each[at::3]) for at in range(3)))
        return found


def all_namespaces(client: Any) -> list[Namespace]:
    """Every namespace in use, by name: those that workers list, and those that only agents know."""
    found = _members(client, NAMESPACES) | _members(client, RESTING)
    return sorted(found.union(_registered(client)))


def _registered(client: Any) -> Iterator[Namespace]:
    servers = getattr(client, "servers", None)  # of a cluster, each has its own keys
    for server in [each for _, each in servers()] if servers else [client]:
        for key in server.scan_iter(match=REGISTERED_PATTERN, count=SCANNED):
            if name := named_by(key):
                yield name


def _members(client: Any, key: str) -> set[Namespace]:
    found: set[Namespace] = set()
    for member in client.smembers(key):
        with suppress(UnicodeDecodeError, InvalidName):
            found.add(namespace(member.decode()))
    return found
