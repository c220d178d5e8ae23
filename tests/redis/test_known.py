"""What is known of covered turns: written with a context, read by workers, gone with a session."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import redis

from tests.processes import wait_until
from tests.redis.conftest import Connect, Surface, Worker
from tests.worker.harness import Monitor
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

SMALL = Policy(max_tokens=1024, ttl_s=60, strategies=("rolling", "window"), quality_threshold=0)


def turns(first: int, last: int) -> list[dict[str, Any]]:
    """Turns with an order of their own each, 60 tokens or so."""
    return [
        {
            "role": "assistant",
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


def known(worker: Worker, session: str = "s") -> list[str]:
    """The orders that are known."""
    snapshot = worker.sessions.snapshot(worker.ref(session))
    assert snapshot is not None
    texts = (each.text for reading in snapshot.known.readings for each in reading.passages)
    return re.findall(r"#W\d+", " ".join(texts))


def test_a_commit_writes_what_is_known_of_the_turns_it_covers(
    either: Surface, worker: Worker, full: str
) -> None:
    watermark = either.read(full).watermark

    assert known(worker) == [order(seq) for seq in range(1, watermark + 1)]


def test_what_an_agent_reads_of_it_is_in_its_context(either: Surface, full: str) -> None:
    watermark = either.read(full).watermark

    head = either.read(full).messages[0]

    assert head["role"] == "user"
    assert [seq for seq in range(1, watermark + 1) if order(seq) not in head["content"]] == []


def test_reads_do_not_fetch_it(connect: Connect, own_server: EmbeddedRedis) -> None:
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


def test_it_lives_as_long_as_its_session(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str
) -> None:
    key = worker.keys(full).facts
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys(full).meta, "expires_at", soon)
    redis_client.pexpireat(key, soon)

    either.push(full, turns(17, 17)[0])

    assert redis_client.pttl(key) == pytest.approx(60_000, abs=5_000)


@pytest.mark.parametrize("remove", ["clear", "forget"])
def test_it_goes_with_the_conversation(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str, remove: str
) -> None:
    assert redis_client.exists(worker.keys(full).facts)

    getattr(either, remove)(full)

    assert not redis_client.exists(worker.keys(full).facts)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[7]",
        b'[{"kind": "smell"}]',
        b'{"pool": [7]}',
        b'{"pool": [{"seq": 1}]}',
        b'{"readings": [7]}',
        b'{"readings": [["1", "user", 0, 8, [], [], false]]}',
    ],
)
def test_what_was_damaged_is_begun_anew(
    worker: Worker, redis_client: redis.Redis, full: str, body: bytes
) -> None:
    redis_client.set(worker.keys(full).facts, body)

    assert known(worker) == []


def rollback(redis_client: redis.Redis, worker: Worker, to: str) -> None:
    Rollback(RedisStates(redis_client), None, counter_for).rollback(worker.ref("s"), to)


def test_what_is_known_of_turns_rolled_back_is_neither_shown_nor_carried_on(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", turn) for turn in turns(1, 16)])
    assert worker.work("s") == "committed"
    client.checkpoint("s", name="here")
    watermark = client.read("s").watermark
    client.push_many([("s", turn) for turn in turns(17, 30)])
    assert worker.work("s") == "committed"
    taken_back = {order(seq) for seq in range(17, 31)}
    assert taken_back & set(known(worker))

    rollback(redis_client, worker, "here")

    assert order(1) in known(worker)
    assert set(known(worker)) <= {order(seq) for seq in range(1, watermark + 1)}
    client.push_many([("s", turn) for turn in turns(101, 116)])
    assert worker.work("s") == "committed"
    assert order(101) in known(worker)
    shown = json.dumps(client.read("s").messages)
    assert [each for each in taken_back if each in [*known(worker), *shown.split()]] == []


def test_a_session_rolled_back_to_before_its_first_compaction_learns_it_again(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", turn) for turn in turns(1, 16)])
    client.checkpoint("s", name="here")
    assert worker.work("s") == "committed"
    before = known(worker)

    rollback(redis_client, worker, "here")

    assert known(worker) == []
    assert worker.work("s") == "committed"
    assert known(worker) == before
