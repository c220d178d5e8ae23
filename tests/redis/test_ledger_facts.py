"""Facts kept word for word: written with the context, read by workers, gone with the session."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.processes import wait_until
from tests.redis.conftest import Connect, Surface, Worker
from tests.worker.harness import Monitor
from turnmill import ContextClient, Policy
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

SMALL = Policy(max_tokens=1024, ttl_s=60, strategies=("rolling", "window"), quality_threshold=0)


def turns(first: int, last: int) -> list[dict[str, Any]]:
    """Turns with a fact of their own each, 60 tokens or so."""
    return [
        {
            "role": "user",
            "content": f"Parcel #W{at * 7919:07} is mine. " + "And so on, please. " * 10,
        }
        for at in range(first, last + 1)
    ]


def order(seq: int) -> str:
    return f"#W{seq * 7919:07}"


@pytest.fixture
def full(either: Surface, worker: Worker) -> str:
    either.open("s", SMALL)
    either.push_many([("s", turn) for turn in turns(1, 16)])
    assert worker.work("s") == "committed"
    return "s"


def facts(worker: Worker, session: str = "s") -> list[str]:
    snapshot = worker.sessions.snapshot(worker.ref(session))
    assert snapshot is not None
    return [fact.text for fact in snapshot.facts if fact.kind == "id"]


def test_a_commit_writes_the_facts_of_the_turns_it_covers(
    either: Surface, worker: Worker, full: str
) -> None:
    watermark = either.read(full).watermark

    assert facts(worker) == [order(seq) for seq in range(1, watermark + 1)]


def test_the_facts_an_agent_reads_are_in_its_context(either: Surface, full: str) -> None:
    watermark = either.read(full).watermark

    head = either.read(full).messages[0]

    assert head["role"] == "user"
    assert [seq for seq in range(1, watermark + 1) if order(seq) not in head["content"]] == []


def test_reads_do_not_fetch_the_facts(connect: Connect, own_server: EmbeddedRedis) -> None:
    # A server of its own: what jobs of other tests' workers ask for is overheard as well.
    client = connect(own_server.url)
    client.open("s", SMALL)
    client.push_many([("s", turn) for turn in turns(1, 16)])
    with redis.Redis.from_url(own_server.url) as raw:
        assert Worker(raw, client.namespace).work("s") == "committed"

    with Monitor(own_server.url) as monitor:
        client.read("s")
        client.info("s")
        wait_until(lambda: client.info("s") and ":context" in monitor.text(), what="overheard")

    assert ":facts" not in monitor.text()


def test_facts_live_as_long_as_their_session(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str
) -> None:
    key = worker.keys(full).facts
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys(full).meta, "expires_at", soon)
    redis_client.pexpireat(key, soon)

    either.push(full, turns(17, 17)[0])

    assert redis_client.pttl(key) == pytest.approx(60_000, abs=5_000)


@pytest.mark.parametrize("remove", ["clear", "forget"])
def test_facts_go_with_the_conversation(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str, remove: str
) -> None:
    assert redis_client.exists(worker.keys(full).facts)

    getattr(either, remove)(full)

    assert not redis_client.exists(worker.keys(full).facts)


def test_turning_the_ledger_off_removes_the_facts_at_the_next_compaction(
    either: Surface, worker: Worker, full: str
) -> None:
    either.open(full, SMALL.model_copy(update={"ledger_ratio": 0.0}))
    either.push_many([(full, turn) for turn in turns(17, 30)])
    assert worker.work(full) == "committed"

    assert facts(worker, full) == []
    assert "[Facts kept" not in json.dumps(either.read(full).messages)


@pytest.mark.parametrize("body", [b"{", b"[7]", b'[{"kind": "smell"}]', b'[{"strange": 1}]'])
def test_facts_of_another_version_of_turnmill_are_begun_anew(
    worker: Worker, redis_client: redis.Redis, full: str, body: bytes
) -> None:
    redis_client.set(worker.keys(full).facts, body)

    assert facts(worker) == []


def rollback(redis_client: redis.Redis, worker: Worker, to: str) -> None:
    Rollback(RedisStates(redis_client), None, counter_for).rollback(worker.ref("s"), to)


def test_facts_of_turns_rolled_back_are_neither_shown_nor_carried_on(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", turn) for turn in turns(1, 16)])
    assert worker.work("s") == "committed"
    client.checkpoint("s", name="here")
    watermark = client.read("s").watermark
    client.push_many([("s", turn) for turn in turns(17, 30)])
    assert worker.work("s") == "committed"
    assert order(17) in facts(worker)

    rollback(redis_client, worker, "here")

    assert facts(worker) == [order(seq) for seq in range(1, watermark + 1)]
    client.push_many([("s", turn) for turn in turns(101, 116)])
    assert worker.work("s") == "committed"
    assert not {order(seq) for seq in range(17, 31)} & set(facts(worker))
    assert {order(1), order(16), order(101)} <= set(facts(worker))
    assert order(17) not in json.dumps(client.read("s").messages)


def test_a_session_rolled_back_to_before_its_first_compaction_gets_its_facts_again(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", turn) for turn in turns(1, 16)])
    client.checkpoint("s", name="here")
    assert worker.work("s") == "committed"
    before = facts(worker)

    rollback(redis_client, worker, "here")

    assert facts(worker) == []
    assert worker.work("s") == "committed"
    assert facts(worker) == before
