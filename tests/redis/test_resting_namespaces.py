"""Namespaces with nothing to do come to rest: sweeps leave them alone, and lose nothing there."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from tests.properties.stepping import SentHints
from turnmill import ContextClient, SilentWaker
from turnmill.contract import jobs
from turnmill.contract.keys import NAMESPACES, RESTING, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.background.sweep import EXPIRY_EVERY, Sweeper, Visits
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sweep_lists import RedisSweepLists

HELLO = {"role": "user", "content": "Hello."}
NAME = Namespace("quiet")
REF = SessionRef(NAME, SessionId("s"))


@pytest.fixture
def server(own_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A server with no other test's namespaces."""
    with redis.Redis.from_url(own_server.url) as client:
        yield client


@pytest.fixture
def agent(own_server: EmbeddedRedis) -> Iterator[ContextClient]:
    with ContextClient(own_server.url, namespace=NAME, broker=SilentWaker()) as client:
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


def test_a_turn_pushed_just_after_its_namespace_came_to_rest_is_found(
    agent: ContextClient, server: redis.Redis
) -> None:
    agent.push("s", HELLO)
    server.delete(*server.keys("*:backlog"))
    hints = SentHints()
    sweeper = _sweeper(server, hints)
    sweeper.run()
    assert not server.sismember(NAMESPACES, NAME)

    agent.push("s", HELLO)
    time.sleep(0.002)
    sweeper.run()

    assert hints.sent == [(jobs.ESTIMATE, REF)]
    assert server.sismember(NAMESPACES, NAME)


@pytest.mark.parametrize("kind", ["backlog", "due", "unarchived", "forgotten"])
def test_a_namespace_with_something_listed_for_later_does_not_rest(
    server: redis.Redis, kind: str
) -> None:
    server.sadd(NAMESPACES, NAME)
    in_an_hour_ms = (time.time() + 3600) * 1000
    server.zadd(getattr(shard_keys(NAME, 7), kind), {"s": in_an_hour_ms})

    _sweeper(server, SentHints()).run()

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


def test_a_client_registers_its_namespace_rarely_and_again(
    agent: ContextClient, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def registered() -> int:
        return int(server.info("commandstats")["cmdstat_publish"]["calls"])

    agent.push("s", HELLO)
    first = registered()
    for _ in range(20):
        agent.push("s", HELLO)
    assert registered() == first

    later = time.monotonic() + 11
    sweeper = _sweeper(server, SentHints())
    sweeper.run()
    monkeypatch.setattr(time, "monotonic", lambda: later)
    server.delete(NAMESPACES)
    agent.push("s", HELLO)
    sweeper.run()

    assert server.sismember(NAMESPACES, NAME)
