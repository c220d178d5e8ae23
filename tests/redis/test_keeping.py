"""What a session keeps beside its turns, and for how long."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import ContextClient, Policy
from turnmill.contract.keys import registry_keys
from turnmill.contract.names import Namespace
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

# --- Every key of a session has a lifetime; a push renews it; forgetting leaves nothing.


LONG = {"role": "user", "content": "word " * 60}
MINUTE_MS = 60_000


def lifetimes(redis_client: redis.Redis, worker: Worker, session: str) -> dict[str, int]:
    """Milliseconds each key of the session that exists has left; -1 is for ever."""
    keys = {key: int(redis_client.pttl(key)) for key in worker.keys(session).owned}
    return {key: left for key, left in keys.items() if left != -2}


def test_every_key_of_a_compacted_session_has_a_lifetime(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)

    outcome = worker.work("s")

    left = lifetimes(redis_client, worker, "s")
    assert outcome == "committed"
    assert len(left) == 10
    assert all(0 < each <= MINUTE_MS for each in left.values())


def test_a_push_renews_the_lifetime_of_every_key(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)
    worker.work("s")
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys("s").meta, "expires_at", soon)
    for key in worker.keys("s").owned:
        redis_client.pexpireat(key, soon)

    client.push("s", LONG)

    assert all(left > 55_000 for left in lifetimes(redis_client, worker, "s").values())


def test_a_forgotten_session_leaves_no_key(
    either: Surface, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    either.push("s", LONG)

    forgotten = either.forget("s")

    assert forgotten
    assert forgotten.keys_left == 0
    # What is left says that the archive must forget it, too; the shard's hint ends in a second.
    registered = registry_keys(Namespace(namespace)).registered.encode()
    passing = {worker.keys("s").hinted.encode(), registered}
    left = set(redis_client.keys(f"*{namespace}*")) - passing
    assert left == {worker.keys("s").forgotten.encode()}
    assert redis_client.exists(registered), "workers end it when they see that nothing is left"


# --- What is known of covered turns: written with a context, read by workers, gone with a session.


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


@pytest.mark.parametrize("remove", ["clear", "forget"])
def test_it_goes_with_the_conversation(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str, remove: str
) -> None:
    assert redis_client.exists(worker.keys(full).facts)

    getattr(either, remove)(full)

    assert not redis_client.exists(worker.keys(full).facts)


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


# --- Rules through a client: listed, laid down, revoked, and kept by compactions.


TIGHT = Policy(max_tokens=512, checkpoint_interval=0)


def texts(surface: Surface, session: str = "s") -> list[str]:
    return [rule.text for rule in surface.rules(session)]


@pytest.fixture
def talk(either: Surface) -> str:
    either.open("s", TIGHT, "You are terse.")
    either.push("s", {"role": "user", "content": "Hi. Do not ever email me. Always use metres."})
    either.push("s", {"role": "assistant", "content": "Noted: always answer in German."})
    return "s"


def test_what_a_user_laid_down_stands_behind_the_system_prompt_after_each_compaction(
    either: Surface, worker: Worker, talk: str
) -> None:
    beginnings = []
    for _ in range(3):
        either.push_many([(talk, LONG)] * 8)
        assert worker.work(talk) == "committed"
        beginnings.append(either.read(talk).messages[:2])

    assert beginnings[0][1]["role"] == "user"
    # The request that the session began with states them: they stand there, once.
    assert "Do not ever email me. Always use metres." in beginnings[0][1]["content"]
    assert beginnings[0] == beginnings[1] == beginnings[2]
    assert [text.removeprefix("Hi. ") for text in texts(either)] == [
        "Do not ever email me.",
        "Always use metres.",
    ]


def test_what_the_user_said_stands_in_a_context_while_no_worker_runs(either: Surface) -> None:
    said = {1: "Sort my invoices.", 3: "Never email me.", 80: "Use metres.", 200: "Skip Sundays."}
    either.open("s", Policy(max_tokens=2000), "You are terse.")
    looked = {"role": "tool", "tool_call_id": "c", "content": "a row of numbers " * 20}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    other = [asked, looked]
    either.push_many(
        ("s", {"role": "user", "content": said[seq]} if seq in said else other)
        for seq in range(1, 301)
    )

    read = either.read("s")

    assert read.projection is not None
    assert read.tokens <= 2000
    lines = str(read.messages[1]["content"]).splitlines()
    assert lines[1:-1] == [f"(turn {seq}) {text}" for seq, text in said.items()]
    assert len([m for m in read.messages if m["role"] == "tool"]) < 20


# --- What Redis wrote is compared with Redis' time, however wrong the clock here is.


@pytest.fixture(params=[-3600.0, 3600.0], ids=["behind", "ahead"])
def _wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this process, and so of its client and worker, is an hour off."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + request.param)


@pytest.mark.usefixtures("_wrong_clock")
def test_a_session_says_how_long_it_has_waited(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    waiting = either.info("s")
    worker.pipeline.estimate(worker.ref("s"))
    due = either.info("s")
    for _ in range(5):
        worker.pipeline.failed(worker.ref("s"), "KeyError")
    parked = either.info("s")

    assert waiting.pending_for_s == pytest.approx(0, abs=30)
    assert due.due_in_s == pytest.approx(0, abs=30)
    assert parked.parked_for_s == pytest.approx(0, abs=30)
