"""A namespace whose lists are damaged costs itself: sweeps go on for all others, and tell of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.properties.stepping import SentHints
from tests.redis.conftest import Worker
from turnmill import ContextClient, SilentWaker
from turnmill.contract import jobs
from turnmill.contract.keys import (
    NAMESPACES,
    RESTING,
    ShardKeys,
    session_keys,
    shard_keys,
    shard_of,
)
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.registry import TROUBLED, registered_channel, registry_keys
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.background.sweep import ARCHIVE_EVERY, EXPIRY_EVERY, MOST, Sweeper, Visits
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sweep_lists import RedisSweepLists

HELLO = {"role": "user", "content": "Hello."}
BAD, GOOD = Namespace("bad"), Namespace("good")
SHARD = shard_of(SessionId("s"))
MARK = "moonflower-4711"


@pytest.fixture
def server(own_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_server.url) as client:
        yield client


@pytest.fixture
def both(own_server: EmbeddedRedis) -> None:
    """A session in each namespace, whose hint was lost."""
    for name in (BAD, GOOD):
        with ContextClient(own_server.url, namespace=name, broker=SilentWaker()) as client:
            client.push("s", HELLO)


def _sweeper(server: redis.Redis, hints: SentHints) -> Sweeper:
    return Sweeper(RedisSweepLists(server), hints, stale_after_s=-1.0)


def _all_passes(sweeper: Sweeper) -> None:
    """Those that look at every list there is."""
    for _ in range(EXPIRY_EVERY * ARCHIVE_EVERY):
        sweeper.run()


def _told(server: redis.Redis) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(server.get(TROUBLED) or "{}")
    return told


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("name", ShardKeys.__slots__)
@pytest.mark.parametrize("kind", ["string", "hash", "stream", "not-utf-8", "no-name"])
def test_a_damaged_list_of_one_namespace_stops_no_other(
    server: redis.Redis, name: str, kind: str
) -> None:
    keys, hints = shard_keys(BAD, SHARD), SentHints()
    _damage(server, getattr(keys, name), kind)

    _all_passes(_sweeper(server, hints))

    good = [ref for task, ref in hints.sent if task == jobs.ESTIMATE and ref.namespace == GOOD]
    assert len(good) == EXPIRY_EVERY * ARCHIVE_EVERY
    assert {ref.session for _, ref in hints.sent} == {"s"}
    assert MARK not in str(_told(server))


def _damage(server: redis.Redis, key: str, kind: str) -> None:
    server.delete(key)
    raw: Any = server
    match kind:
        case "string":
            server.set(key, MARK)
        case "hash":
            server.hset(key, MARK, MARK)
        case "stream":
            raw.xadd(key, {MARK: MARK})
        case "not-utf-8":
            raw.zadd(key, {b"\xff\xfe" + MARK.encode(): 1, f"1:{{{MARK}}}": float("-inf")})
        case "no-name":
            raw.zadd(key, {f"{{}} {MARK}": 1, "": 2, ":": 3, "x" * 100_000: 4})


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("name", ["backlog", "due", "unarchived", "forgotten", "index"])
def test_members_that_name_no_session_are_dropped_and_counted(
    server: redis.Redis, name: str
) -> None:
    key = getattr(shard_keys(BAD, SHARD), name)
    server.zadd(key, {b"\xff": 1, b"no name": 2, b"a}b": 3})

    _all_passes(_sweeper(server, SentHints()))

    assert not {b"\xff", b"no name", b"a}b"} & {*server.zrange(key, 0, -1)}
    assert _told(server)["named"].keys() == {BAD}
    # Of what waits for the archive, one member of a shard is looked at in a pass.
    assert _told(server)["named"][BAD]["dropped"] == (1 if name == "unarchived" else 3)


@pytest.mark.usefixtures("both")
def test_a_key_of_a_wrong_type_is_told_by_its_namespace_and_kind(server: redis.Redis) -> None:
    server.delete(shard_keys(BAD, SHARD).backlog)
    server.set(shard_keys(BAD, SHARD).backlog, MARK)

    _sweeper(server, SentHints()).run()

    told = _told(server)["named"]
    assert told == {BAD: {"why": "WRONGTYPE", "errors": 1, "dropped": 0}}


@pytest.mark.parametrize("damage", ["deleted", "replaced", "junk"])
@pytest.mark.usefixtures("both")
def test_the_list_of_namespaces_is_found_again_when_it_was_lost(
    server: redis.Redis, damage: str
) -> None:
    hints = SentHints()
    sweeper = _sweeper(server, hints)
    sweeper.run()
    server.delete(NAMESPACES)
    match damage:
        case "replaced":
            server.set(NAMESPACES, MARK)
        case "junk":
            server.sadd(NAMESPACES, b"\xff", "no name", "{}/")
    hints.sent.clear()

    sweeper.run()
    sweeper.run()

    assert {ref.namespace for _, ref in hints.sent} == {BAD, GOOD}
    assert server.smembers(NAMESPACES) == {b"bad", b"good"}


def test_a_namespace_that_a_client_announces_is_swept_at_once(
    own_server: EmbeddedRedis, server: redis.Redis
) -> None:
    hints = SentHints()
    sweeper = _sweeper(server, hints)
    sweeper.run()
    with ContextClient(own_server.url, namespace=GOOD, broker=SilentWaker()) as client:
        client.push("s", HELLO)

    for _ in range(2):  # the first also reads that the channel is subscribed to
        sweeper.run()

    assert (jobs.ESTIMATE, SessionRef(GOOD, SessionId("s"))) in hints.sent


def test_a_tenant_can_announce_only_itself(server: redis.Redis) -> None:
    sweeper = _sweeper(server, SentHints())
    sweeper.run()
    for channel in ("turnmill:bad:x:registered", "turnmill::registered", "turnmill:{}:registered"):
        server.publish(channel, GOOD)
    server.publish(registered_channel(BAD), GOOD)
    server.set("turnmill:{bad/x/registered}:registered", 1)
    server.set("turnmill:{bad/registered}:registered:registered", 1)
    server.set(registry_keys(BAD).registered, GOOD)
    sweeper.run()
    sweeper.run()

    assert server.smembers(NAMESPACES) == {b"bad"}


def test_a_client_notes_its_namespace_again_where_that_was_lost(
    own_server: EmbeddedRedis, server: redis.Redis
) -> None:
    with ContextClient(own_server.url, namespace=GOOD, broker=SilentWaker()) as client:
        client.push("s", HELLO)
        server.flushall()
        client.push("s", HELLO)  # a first turn, so it registers at once

    assert server.exists(registry_keys(GOOD).registered)


def test_a_long_list_of_one_tenant_leaves_hints_for_the_others(server: redis.Redis) -> None:
    names = [f"x{at}" for at in range(2 * MOST)]
    for session in names:
        server.zadd(session_keys(BAD, SessionId(session)).due, {session: 1})
    server.zadd(shard_keys(GOOD, SHARD).due, {"s": 2})
    server.sadd(NAMESPACES, BAD, GOOD)
    hints = SentHints()

    _sweeper(server, hints).run()

    sent = [ref.namespace for task, ref in hints.sent if task == jobs.COMPACT]
    assert len(sent) == MOST
    assert sent.count(GOOD) == 1


def test_a_resting_namespace_is_not_woken_by_the_search(server: redis.Redis) -> None:
    server.set(registry_keys(GOOD).registered, 1)
    server.sadd(RESTING, GOOD)
    lists = RedisSweepLists(server)

    Visits(lists, rest_after_s=0.0, round_s=1e-6).listed()

    assert server.smembers(RESTING) == {b"good"}
    assert not server.exists(NAMESPACES)


def test_a_counting_job_drops_what_names_no_session(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.push("s", HELLO)
    backlog = worker.keys("s").backlog
    redis_client.zadd(backlog, {b"\xff": 1, b"no name": 2})

    found = [*worker.pipeline.waiting(worker.ref("s"))]

    assert {ref.session for ref in found} <= {"s"}
    assert not {b"\xff", b"no name"} & {*redis_client.zrange(backlog, 0, -1)}
