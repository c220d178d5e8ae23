"""What Redis wrote is compared with Redis' time, however wrong the clock here is."""

from __future__ import annotations

import time

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import Policy
from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import ENDPOINTS, endpoint_hash
from turnmill_worker.store.agent_requests import RedisQuestions
from turnmill_worker.store.model_gates import RedisGate

LONG = {"role": "user", "content": "word " * 60}


@pytest.fixture(params=[-3600.0, 3600.0], autouse=True)
def _wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this process, and so of its client and worker, is an hour off."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + request.param)


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


def test_a_session_says_how_long_its_summary_has_waited(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    either.push("s", LONG)
    now_ms = RedisQuestions(redis_client).now_ms()
    redis_client.hset(worker.keys("s").meta, mapping={"waits": "model", "waits_at": now_ms})

    wait = either.info("s").wait

    assert wait.for_s == pytest.approx(0, abs=30)


def test_an_endpoint_is_listed_when_redis_saw_it(redis_client: redis.Redis, namespace: str) -> None:
    gate = RedisGate(redis_client, "https://models.example/v1", namespace)

    gate.admit(tokens=1, within_s=60)

    seen_ms = redis_client.zscore(ENDPOINTS, endpoint_hash("models.example/v1", namespace))
    assert seen_ms == pytest.approx(redis_now_ms(redis_client), abs=30_000)
