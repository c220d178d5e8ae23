"""The doctor says which namespaces sweeps stumbled over, and what was put aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tests.cli.commands import Ran
from tests.properties.stepping import SentHints
from turnmill.contract.keys import NAMESPACES, QUARANTINED, QUARANTINED_COUNT, TROUBLED, shard_keys
from turnmill.contract.names import Namespace
from turnmill_worker.background.consumer import BadMessage, Quarantine
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.store.reports import RedisQuarantine, RedisUsage
from turnmill_worker.store.sweep_lists import RedisSweepLists


@pytest.fixture
def server(redis_client: redis.Redis) -> Iterator[redis.Redis]:
    """All that these tests leave is about no namespace of other tests."""
    kept = (TROUBLED, QUARANTINED, QUARANTINED_COUNT)
    redis_client.delete(*kept)
    yield redis_client
    redis_client.delete(*kept)


def _check(ran: Ran, name: str) -> dict[str, str]:
    [found] = [check for check in ran.json["checks"] if check["name"] == name]
    return dict(found)


@pytest.mark.usefixtures("server")
def test_nothing_damaged_is_said_so(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("doctor", "--json")

    assert _check(ran, "namespaces")["status"] == "ok"
    assert _check(ran, "messages")["found"] == "workers put none aside"


def test_a_damaged_namespace_is_named_with_what_is_wrong(
    turnmill: Callable[..., Ran], server: redis.Redis, namespace: str
) -> None:
    server.sadd(NAMESPACES, namespace)
    server.set(shard_keys(Namespace(namespace), 1).due, "x")
    server.zadd(shard_keys(Namespace(namespace), 2).backlog, {b"\xff": 1, b"no name": 2})
    Sweeper(RedisSweepLists(server), SentHints(), stale_after_s=0.0).run()

    found = _check(turnmill("doctor", "--json"), "namespaces")

    assert found["status"] == "warning"
    assert (
        f"{namespace}: WRONGTYPE (1 time), 2 members that named no session dropped"
        in found["found"]
    )


def test_messages_put_aside_are_counted_and_the_newest_is_described(
    turnmill: Callable[..., Ran], server: redis.Redis
) -> None:
    aside = Quarantine(lambda: RedisQuarantine(server))
    for why in ("not JSON", "header timelimit"):
        aside.put_aside(BadMessage.of(why, "estimate", b"moonflower", {}))

    found = _check(turnmill("doctor", "--json"), "messages")

    assert found["status"] == "warning"
    assert found["found"].startswith("workers put 2 messages aside, the newest ")
    assert found["found"].endswith("header timelimit, 10 bytes in queue estimate")


def test_a_quota_that_is_used_up_is_said_with_its_numbers(
    turnmill: Callable[..., Ran], redis_client: redis.Redis, namespace: str
) -> None:
    RedisUsage(redis_client).tell(Namespace(namespace), {"sessions": (1_200, 1_000)}, None)

    found = _check(turnmill("doctor", "--json"), "quotas")

    assert found["status"] == "warning"
    assert "1,200 of 1,000 sessions" in found["found"]
    assert "TURNMILL_QUOTAS_FILE" in found["advice"]
