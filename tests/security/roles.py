"""The users of deploy/acl, on a real server, and what a hostile one of them can reach."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from turnmill.contract.keys import (
    ENDPOINTS,
    NAMESPACES,
    QUARANTINED,
    RESTING,
    SERVER_KEYS,
    SUMMARIZERS,
    SWEEP_LEASE,
    TROUBLED,
    UNCOMPARED,
    WAITING,
    ask_keys,
    commits_channel,
    endpoint_keys,
    policies_key,
    registered_channel,
    registry_keys,
    session_keys,
)
from turnmill.contract.names import Namespace, SessionId

__all__ = [
    "ACL",
    "PASSWORD",
    "add_user",
    "breaches",
    "commands_of",
    "foreign_channels",
    "foreign_keys",
    "is_refused",
    "line_of",
    "url_of",
]

ACL = Path(__file__).resolve().parents[2] / "deploy" / "acl"
PASSWORD = "a-secret-of-tests"  # noqa: S105 - of servers that live for a test


def line_of(role: str, namespace: str = "shop") -> str:
    """The line of a role, filled in as an operator would."""
    digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
    line = (ACL / f"{role}.acl").read_text().strip()
    return line.replace("SHA256-OF-PASSWORD", digest).replace("NAMESPACE", namespace)


def commands_of(role: str) -> set[str]:
    """The commands that the line of a role allows."""
    return {word[1:] for word in line_of(role).split() if word.startswith("+")}


def add_user(server: redis.Redis, line: str) -> str:
    """Make the user of a line, new, and return its name."""
    _, name, *rules = line.split()
    raw: Any = server
    raw.execute_command("ACL", "DELUSER", name)
    raw.execute_command("ACL", "SETUSER", name, *rules)
    return name


def url_of(port: int, user: str) -> str:
    return f"redis://{user}:{PASSWORD}@127.0.0.1:{port}/0"


def foreign_keys(namespace: str) -> Iterator[str]:
    """Keys of another tenant, and keys that all share."""
    other, session = Namespace(namespace), SessionId("s")
    keys = session_keys(other, session)
    yield from (getattr(keys, name) for name in type(keys).__slots__)
    yield from (getattr(keys, name) for name in ("backlog", "due", "index", "unarchived"))
    yield from (getattr(keys, name) for name in ("parked", "forgotten", "abandoned", "hinted"))
    yield f"{keys.blob}{'0' * 64}"
    yield ask_keys(other, "x").ask
    yield ask_keys(other, "x").answer
    yield policies_key(other)
    yield from (registry_keys(other).registered, registry_keys(other).quota)
    yield from (NAMESPACES, RESTING, SWEEP_LEASE, ENDPOINTS, SUMMARIZERS, TROUBLED, QUARANTINED)
    yield SERVER_KEYS
    yield UNCOMPARED
    yield from (WAITING.order, WAITING.served, f"{WAITING.waiting}{other}", WAITING.since)
    yield endpoint_keys("0" * 16).gate
    yield from ("estimate", "unacked", "_kombu.binding.estimate", "", "x")


def foreign_channels(namespace: str) -> Iterator[str]:
    other = Namespace(namespace)
    yield from (commits_channel(other), registered_channel(other))
    yield from ("turnmill:", "__keyspace@0__:x", "/0.celery.pidbox", "x")


def _commands(text: str) -> Sequence[Sequence[str]]:
    """Commands written one after the other."""
    return [each.split() for each in text.split(";")]


_HARMFUL = _commands(
    """
    SCAN 0; KEYS *; RANDOMKEY; DBSIZE; FLUSHALL; FLUSHDB; SWAPDB 0 1; SCRIPT FLUSH;
    SCRIPT KILL; SCRIPT LOAD return; CONFIG GET *; CONFIG SET maxmemory 1; ACL LIST;
    ACL WHOAMI; CLIENT LIST; CLIENT KILL TYPE normal; CLIENT PAUSE 1; CLIENT TRACKING ON;
    MONITOR; SUBSCRIBE x; PSUBSCRIBE *; PUBSUB CHANNELS; DEBUG SLEEP 0; SLOWLOG GET;
    LATENCY LATEST; INFO; SAVE; BGREWRITEAOF; REPLICAOF NO ONE; MODULE LIST; MEMORY STATS;
    WAIT 0 0; OBJECT HELP; COPY x y; RENAME x y; RESTORE x 0 x; MIGRATE 127.0.0.1 1 x 0 1;
    SORT x; SETBIT x 0 1; FUNCTION FLUSH; MULTI
    """
)
"""What no agent may do whatever the key: it would reach all tenants, or is not needed."""

_ON_KEYS = _commands(
    """
    GET; SET v; DEL; EXISTS; PTTL; PEXPIRE 1000; HGETALL; HSET f v; ZRANGE 0 -1; ZADD 1 m;
    XADD * f v; XRANGE - +; RPUSH v; BLPOP 0.01
    """
)


def is_refused(client: redis.Redis, *words: str) -> bool:
    """Whether the server does not let the user do it, whatever else it says."""
    raw: Any = client
    try:
        raw.execute_command(*words)
    except redis.RedisError as error:
        said = str(error)
        marks: tuple[str, ...] = (
            "NOPERM",
            "no permissions",
            "The user executing the script",
            "ACL failure",
        )
        marks += ("DEBUG command not allowed",)  # Redis 7 lets nobody
        unknown = "unknown command" in said.lower()  # a newer Redis has it
        return unknown or any(mark in said for mark in marks)
    return False


def breaches(client: redis.Redis, other: str) -> Iterator[tuple[str, ...]]:
    """Everything that this user can do and no agent may; each is done when it is found."""
    attempts = [tuple(words) for words in _HARMFUL]
    for key in foreign_keys(other):
        attempts += [(name, key, *rest) for name, *rest in _ON_KEYS]
        attempts.append(("EVAL", f"return redis.call('GET', '{key}')", "0"))
        attempts.append(("EVAL", "return redis.call('DEL', KEYS[1])", "1", key))
    attempts += [
        ("EVAL", f"return redis.call({call})", "0") for call in ("'RANDOMKEY'", "'KEYS', '*'")
    ]
    attempts += [("PUBLISH", channel, "x") for channel in foreign_channels(other)]
    return (words for words in attempts if not is_refused(client, *words))
