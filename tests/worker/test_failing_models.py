"""Workers share what they know of a model: one finds out that it fails, and all leave it alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import chat, push_all
from turnmill import ContextClient, Policy
from turnmill.contract.keys import endpoint_hash, endpoint_keys
from turnmill.embedded_redis import EmbeddedRedis
from turnmill.testing import FakeEndpoint, Fault
from turnmill_worker.ports.protocols import place_of

pytestmark = pytest.mark.worker

KEY = "sk-for-tests-only-0123456789"
MODEL = "gpt-4o-mini"
AT_ONCE = Policy(
    max_tokens=2_000,
    summarizer="openai",
    model=MODEL,
    model_attempts=0,
    model_timeout_s=40.0,
    strategies=("rolling", "window"),
    quality_threshold=0.0,
)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key=KEY, hang_s=60.0) as running:
        yield running


@pytest.fixture
def gate(endpoint: FakeEndpoint) -> str:
    """The key of the model's gate."""
    return endpoint_keys(endpoint_hash(place_of(endpoint.base_url), MODEL)).gate


Start = Callable[..., WorkerProcess]


@pytest.fixture
def start(store: EmbeddedRedis, endpoint: FakeEndpoint, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker that knows the endpoint."""
    made: list[WorkerProcess] = []

    def run(name: str, **settings: str) -> WorkerProcess:
        env = {"TURNMILL_MODEL_URL": endpoint.base_url, "TURNMILL_MODEL_KEY": KEY, **settings}
        made.append(WorkerProcess(store.url, tmp_path, name=name, env=env))
        return made[-1].start()

    yield run
    for worker in made:
        worker.__exit__()


def written_by(client: ContextClient, session: str) -> str:
    """Who wrote the first summary of a session that is over its soft limit now."""
    client.open(session, AT_ONCE)
    push_all(client, session, chat(60))
    wait_until(lambda: client.info(session).version, what=f"{session} committed")
    return client.trajectory(session).compactions[0].record.model


def fail(endpoint: FakeEndpoint, fault: Fault, times: int) -> None:
    faults: list[Fault] = [fault] * times
    endpoint.fail_next(*faults)


def test_a_worker_that_dies_while_it_probes_keeps_no_other_from_it(
    client: ContextClient, server: redis.Redis, start: Start, endpoint: FakeEndpoint, gate: str
) -> None:
    raw: Any = server
    first = start("first")
    fail(endpoint, "500", 5)
    for at in range(5):
        assert written_by(client, f"failed-{at}") == "extractive"
    assert written_by(client, "left-alone") == "extractive"
    assert len(endpoint.requests) == 5

    raw.hset(gate, "open_until", 1)
    fail(endpoint, "timeout", 1)
    client.open("probe", AT_ONCE)
    push_all(client, "probe", chat(60))
    wait_until(lambda: len(endpoint.requests) == 6, what="probing")
    first.kill()
    start("second")
    assert written_by(client, "too-early") == "extractive"
    ends_in_s = float(raw.hget(gate, "probe_until")) / 1000 - time.time()
    raw.hset(gate, "probe_until", 1)  # as if that had passed

    assert 0 < ends_in_s <= 45
    assert written_by(client, "probes-again") == MODEL
    assert written_by(client, "all-is-well") == MODEL
    assert raw.hget(gate, "open_until") is None


def test_two_workers_keep_one_budget(
    client: ContextClient, start: Start, endpoint: FakeEndpoint
) -> None:
    for name in ("one", "two"):
        start(name, TURNMILL_MODEL_REQUESTS_PER_MINUTE="12")

    wrote = [written_by(client, f"s{at}") for at in range(6)]

    # A bucket of two, filled by one each 5.5 seconds.
    assert wrote.count(MODEL) < 6
    assert len(endpoint.requests) <= 5
