"""Sweeps find what nobody was told of, whatever clocks, tenants and damage there are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.processes import wait_until
from tests.properties.stepping import SentHints
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.keys import (
    NAMESPACES,
    RESTING,
    TROUBLED,
    ShardKeys,
    registered_channel,
    registry_keys,
    session_keys,
    shard_keys,
    shard_of,
)
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.background.sweep import ARCHIVE_EVERY, EXPIRY_EVERY, MOST, Sweeper, Visits
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sweep_lists import RedisSweepLists

# --- What a sweep finds, by Redis' clock alone, and what it leaves listed.


SMALL = Policy(max_tokens=512)
LONG = {"role": "user", "content": "word " * 60}


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_a_workers_clock_may_be_wrong(
    client: ContextClient,
    worker: Worker,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    skew_s: float,
) -> None:
    client.open("waits", SMALL)
    client.push_many([("waits", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("waits"))
    redis_client.zincrby(worker.keys("waits").due, 60_000, "waits")
    client.push("missed", LONG)
    redis_client.zincrby(worker.keys("missed").backlog, -60_000, "missed")
    wrong = time.time() + skew_s
    monkeypatch.setattr(time, "time", lambda: wrong)
    worker.hints.sent.clear()

    Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=2.0).run()

    assert (jobs.ESTIMATE, worker.ref("missed")) in worker.hints.sent
    assert (jobs.COMPACT, worker.ref("waits")) not in worker.hints.sent


@pytest.mark.parametrize("archive", [True, False])
def test_a_namespace_stays_listed_until_its_sessions_are_forgotten(
    client: ContextClient, worker: Worker, redis_client: redis.Redis, *, archive: bool
) -> None:
    client.push("s", LONG)
    client.forget("s")
    sweeper = Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0, archive=archive)

    for _ in range(EXPIRY_EVERY):
        sweeper.run()
    worker.hints.sent.clear()
    for _ in range(ARCHIVE_EVERY):
        sweeper.run()

    assert (jobs.FORGET, worker.ref("s")) in worker.hints.sent
    redis_client.delete(worker.keys("s").forgotten)
    for _ in range(EXPIRY_EVERY):
        sweeper.run()
    assert not redis_client.sismember(NAMESPACES, client.namespace)


def test_what_redis_wrote_under_a_clock_an_hour_ahead_is_swept(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    hour_ms = 3_600_000
    client.open("due", SMALL)
    client.push_many([("due", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("due"))
    redis_client.zincrby(worker.keys("due").due, hour_ms, "due")
    redis_client.set(worker.keys("due").lease, "gone", px=hour_ms)
    client.push("uncounted", LONG)
    redis_client.zincrby(worker.keys("uncounted").backlog, hour_ms, "uncounted")
    worker.hints.sent.clear()
    sweeper = Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0)

    wanted = {(jobs.ESTIMATE, worker.ref("uncounted")), (jobs.COMPACT, worker.ref("due"))}

    def swept() -> bool:
        """A pass looks for namespaces for some milliseconds: other tests left many keys here."""
        sweeper.run()
        return wanted <= set(worker.hints.sent)

    wait_until(swept, what="both hinted")
    assert worker.pipeline.summarize(worker.ref("due")).outcome == "committed"


# --- Namespaces with nothing to do come to rest: sweeps leave them alone, and lose nothing there.


HELLO = {"role": "user", "content": "Hello."}
NAME = Namespace("quiet")
REF = SessionRef(NAME, SessionId("s"))


@pytest.fixture
def server(redis_client: redis.Redis) -> redis.Redis:
    """Empty before each test."""
    return redis_client


@pytest.fixture
def agent(redis_server: EmbeddedRedis) -> Iterator[ContextClient]:
    with ContextClient(redis_server.url, namespace=NAME, broker=SilentWaker()) as client:
        yield client


def _sweeper(server: redis.Redis, hints: SentHints, *, round_s: float = 600.0) -> Sweeper:
    """Whoever has nothing listed rests at once."""
    lists = RedisSweepLists(server)
    visits = Visits(lists, rest_after_s=0.0, round_s=round_s)
    return Sweeper(lists, hints, stale_after_s=0.0, visits=visits)


def _calls(server: redis.Redis) -> int:
    return int(server.info("stats")["total_commands_processed"])


def _rested(server: redis.Redis, sweeper: Sweeper) -> None:
    """Have the namespace of the agent rest, all its turns counted."""
    for name in server.keys("*:backlog"):
        server.delete(name)
    sweeper.run()
    sweeper.run()
    assert server.sismember(RESTING, NAME)
    assert not server.sismember(NAMESPACES, NAME)


def test_a_namespace_rests_when_nothing_is_listed_and_wakes_when_it_is_pushed_to(
    agent: ContextClient, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.push("s", HELLO)
    hints, later = SentHints(), time.monotonic() + 11
    sweeper = _sweeper(server, hints)
    _rested(server, sweeper)
    monkeypatch.setattr(time, "monotonic", lambda: later)

    agent.push("s", HELLO)
    time.sleep(0.002)
    sweeper.run()

    assert hints.sent == [(jobs.ESTIMATE, REF)]
    assert server.sismember(NAMESPACES, NAME)


def test_what_was_lost_in_a_resting_namespace_is_found_within_a_round(
    server: redis.Redis,
) -> None:
    server.sadd(RESTING, *(f"n{at}" for at in range(500)), NAME)
    server.zadd(shard_keys(NAME, 7).due, {"s": 1})
    hints, round_s = SentHints(), 0.3
    sweeper = _sweeper(server, hints, round_s=round_s)

    until = time.monotonic() + 3 * round_s
    while not hints.sent and time.monotonic() < until:
        sweeper.run()
        time.sleep(0.01)

    assert hints.sent == [(jobs.COMPACT, REF)]
    assert server.sismember(NAMESPACES, NAME)
    assert not server.sismember(RESTING, NAME)


def test_ten_thousand_namespaces_at_rest_cost_a_sweep_a_few_commands(server: redis.Redis) -> None:
    server.sadd(RESTING, *(f"n{at}" for at in range(10_000)))
    sweeper = _sweeper(server, SentHints())
    sweeper.run()
    before = _calls(server)

    for _ in range(EXPIRY_EVERY - 1):
        sweeper.run()

    assert (_calls(server) - before) / (EXPIRY_EVERY - 1) < 100


def test_a_session_that_expires_in_a_resting_namespace_is_dropped_and_then_the_namespace(
    agent: ContextClient, server: redis.Redis
) -> None:
    agent.push("s", HELLO)
    _rested(server, _sweeper(server, SentHints()))
    server.delete(*server.keys("*:s:s:*"))

    sweeper = _sweeper(server, SentHints(), round_s=1e-6)
    for _ in range(4 * EXPIRY_EVERY):
        sweeper.run()

    assert agent.sessions() == []
    assert not server.sismember(RESTING, NAME)
    assert not server.sismember(NAMESPACES, NAME)


# --- A namespace whose lists are damaged costs itself: sweeps go on for all others, and tell of it.


BAD, GOOD = Namespace("bad"), Namespace("good")
SHARD = shard_of(SessionId("s"))
MARK = "moonflower-4711"


@pytest.fixture
def both(redis_server: EmbeddedRedis) -> None:
    """A session in each namespace, whose hint was lost."""
    for name in (BAD, GOOD):
        with ContextClient(redis_server.url, namespace=name, broker=SilentWaker()) as client:
            client.push("s", HELLO)


def _late_sweeper(server: redis.Redis, hints: SentHints) -> Sweeper:
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
@pytest.mark.parametrize("kind", ["string", "no-names"])
def test_a_damaged_list_of_one_namespace_stops_no_other(
    server: redis.Redis, name: str, kind: str
) -> None:
    keys, hints = shard_keys(BAD, SHARD), SentHints()
    _damage(server, getattr(keys, name), kind)

    _all_passes(_late_sweeper(server, hints))

    good = [ref for task, ref in hints.sent if task == jobs.ESTIMATE and ref.namespace == GOOD]
    assert len(good) == EXPIRY_EVERY * ARCHIVE_EVERY
    assert {ref.session for _, ref in hints.sent} == {"s"}
    assert MARK not in str(_told(server))


def _damage(server: redis.Redis, key: str, kind: str) -> None:
    server.delete(key)
    raw: Any = server
    if kind == "string":
        server.set(key, MARK)
        return
    raw.zadd(key, {b"\xff\xfe" + MARK.encode(): 1, f"1:{{{MARK}}}": float("-inf")})
    raw.zadd(key, {f"{{}} {MARK}": 1, "": 2, ":": 3, "x" * 100_000: 4})


@pytest.mark.parametrize("damage", ["deleted", "replaced", "junk"])
@pytest.mark.usefixtures("both")
def test_the_list_of_namespaces_is_found_again_when_it_was_lost(
    server: redis.Redis, damage: str
) -> None:
    hints = SentHints()
    sweeper = _late_sweeper(server, hints)
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


def test_a_tenant_can_announce_only_itself(server: redis.Redis) -> None:
    sweeper = _late_sweeper(server, SentHints())
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


def test_a_long_list_of_one_tenant_leaves_hints_for_the_others(
    server: redis.Redis,
) -> None:
    names = [f"x{at}" for at in range(2 * MOST)]
    for session in names:
        server.zadd(session_keys(BAD, SessionId(session)).due, {session: 1})
    server.zadd(shard_keys(GOOD, SHARD).due, {"s": 2})
    server.sadd(NAMESPACES, BAD, GOOD)
    hints = SentHints()

    _late_sweeper(server, hints).run()

    sent = [ref.namespace for task, ref in hints.sent if task == jobs.COMPACT]
    assert len(sent) == MOST
    assert sent.count(GOOD) == 1
