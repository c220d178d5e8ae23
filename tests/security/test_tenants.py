"""A hostile tenant reaches nothing but its own namespace; each line of the ACL is needed for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

import turnmill.lua
import turnmill_worker.store.lua
from tests.security.roles import (
    add_user,
    breaches,
    commands_of,
    is_refused,
    line_of,
    url_of,
)
from turnmill.connection.embedded import EmbeddedRedis

CONNECTING = {"asking", "cluster|slots", "hello", "ping", "select"}
AGENTS_PLAIN = {
    *("blpop", "del", "eval", "evalsha", "exists", "get", "hget", "hgetall", "hmget", "hset"),
    *("set", "xrange", "zrange"),
}
"""What clients send beside their scripts."""

ROLES = ("agents", "workers", "operator")

LOOSENED = {
    "all-keys": ("~turnmill:{NAMESPACE/*", "~*"),
    "names-that-begin-alike": ("~turnmill:{NAMESPACE/*", "~turnmill:{NAMESPACE*"),
    "all-channels": ("&turnmill:NAMESPACE:*", "&*"),
    "all-commands": ("-@all", "+@all"),
    "scan": ("-@all", "-@all +scan"),
    "transactions": ("-@all", "-@all +multi"),
}


def _tenant(server: EmbeddedRedis, admin: redis.Redis, line: str) -> redis.Redis:
    return redis.Redis.from_url(url_of(server.port, add_user(admin, line)))


def test_a_tenant_can_do_nothing_outside_its_namespace(
    guarded: EmbeddedRedis, admin: redis.Redis
) -> None:
    admin.set("turnmill:{desk/1}:s:s:context", "theirs")
    # "shop" is a beginning of this name.
    other = "shopping"
    with _tenant(guarded, admin, line_of("agents")) as tenant:
        assert [*breaches(tenant, "desk")] == []
        assert [*breaches(tenant, other)] == []

    assert admin.get("turnmill:{desk/1}:s:s:context") == b"theirs"


@pytest.mark.parametrize("name", LOOSENED)
def test_a_loosened_line_is_noticed(guarded: EmbeddedRedis, admin: redis.Redis, name: str) -> None:
    strict, loose = (part.replace("NAMESPACE", "loose") for part in LOOSENED[name])
    line = line_of("agents", "loose")
    assert strict in line

    with _tenant(guarded, admin, line.replace(strict, loose)) as tenant:
        assert next(breaches(tenant, "loose2"), None)


def test_an_agent_may_send_only_what_its_client_sends() -> None:
    scripts = _called(Path(turnmill.lua.__file__).parent)

    assert commands_of("agents") == scripts | CONNECTING | AGENTS_PLAIN


@pytest.mark.parametrize("role", ROLES)
def test_no_role_may_administer(guarded: EmbeddedRedis, role: str) -> None:
    with redis.Redis.from_url(url_of(guarded.port, line_of(role).split()[1])) as client:
        done = [words for words in ADMINISTERING if not is_refused(client, *words)]

        assert done == []
        assert is_refused(client, "SET", "elsewhere", "1")


ADMINISTERING = (
    ("FLUSHALL",),
    ("SCRIPT", "FLUSH"),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "SETUSER", "default", "on"),
    ("DEBUG", "SLEEP", "0"),
    ("RANDOMKEY",),
    ("KEYS", "*"),
    ("SHUTDOWN",),
)


@pytest.mark.parametrize(
    "words",
    [("SET", "turnmill:x", "1"), ("DEL", "turnmill:x"), ("ZADD", "turnmill:x", "1", "m")],
    ids=lambda words: words[0],
)
def test_the_operator_writes_nothing(guarded: EmbeddedRedis, words: tuple[str, ...]) -> None:
    with redis.Redis.from_url(url_of(guarded.port, "operator")) as client:
        script = f"return redis.call({', '.join(map(repr, words))})"

        assert is_refused(client, *words)
        assert is_refused(client, "EVAL", script, "0")


def test_workers_may_send_what_every_script_calls() -> None:
    called = _called(Path(turnmill_worker.store.lua.__file__).parent)

    assert called <= commands_of("workers")
    assert not commands_of("workers") & {"keys", "flushall", "flushdb", "config", "script", "acl"}


def _called(folder: Path) -> set[str]:
    calls = re.compile(r"redis\.p?call\('([A-Z]+)'")
    texts = [file.read_text() for file in folder.glob("*.lua")]
    return {name.lower() for text in texts for name in calls.findall(text)}
