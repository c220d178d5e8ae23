"""A session whose compactions keep failing is set aside, stays readable, and is tried by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import (
    ArchiveUnavailable,
    ContextClient,
    Policy,
    StoreUnavailable,
    Transient,
    UnknownSession,
)
from turnmill.contract import jobs
from turnmill_worker import tasks
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.store.sweep_lists import RedisSweepLists

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512, park_after=3)


@pytest.fixture
def full(client: ContextClient, worker: Worker) -> str:
    """A session over its soft limit whose turns were counted."""
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    return "s"


@pytest.fixture
def parked(worker: Worker, full: str) -> str:
    """The same after three failures."""
    for _ in range(3):
        worker.pipeline.failed(worker.ref(full), "KeyError")
    worker.hints.sent.clear()
    return full


def is_listed(redis_client: redis.Redis, worker: Worker) -> bool:
    return redis_client.zscore(worker.keys("s").parked, "s") is not None


def test_each_failure_makes_it_rest_for_longer_and_the_last_parks_it(
    client: ContextClient, worker: Worker, full: str
) -> None:
    rests = []
    for _ in range(2):
        assert not worker.pipeline.failed(worker.ref(full), "KeyError").parked
        rests.append(client.info(full).due_in_s)

    done = worker.pipeline.failed(worker.ref(full), "KeyError")

    assert rests == [pytest.approx(5, abs=1), pytest.approx(10, abs=1)]
    assert (done.times, done.parked) == (3, True)
    info = client.info(full)
    assert (info.failures, info.due_in_s) == (3, None)
    assert info.parked_for_s == pytest.approx(0, abs=1)


def test_a_commit_ends_the_row(client: ContextClient, worker: Worker, full: str) -> None:
    for _ in range(2):
        worker.pipeline.failed(worker.ref(full), "KeyError")

    assert worker.work(full) == "committed"

    assert client.info(full).failures == 0


def test_a_session_of_an_unreadable_policy_is_parked_after_five(
    redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    redis_client.hset(worker.keys(full).meta, "policy", '{"park_after": "moon"}')

    done = [worker.pipeline.failed(worker.ref(full), "KeyError").parked for _ in range(5)]

    assert done == [False] * 4 + [True]


def test_a_failure_of_a_session_that_is_gone_leaves_nothing(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    client.forget(full)

    worker.pipeline.failed(worker.ref(full), "KeyError")

    assert redis_client.exists(*worker.keys(full).owned) == 0
    assert not is_listed(redis_client, worker)


def test_it_is_pushed_to_counted_and_read_but_not_compacted(
    client: ContextClient, worker: Worker, parked: str
) -> None:
    client.push(parked, {"role": "user", "content": "the newest"})
    worker.pipeline.estimate(worker.ref(parked))

    assert client.info(parked).counted_seq == 13
    assert client.read(parked).messages[-1]["content"] == "the newest"
    assert client.info(parked).due_in_s is None
    assert worker.hints.sent == []
    for job in (worker.pipeline.compact, worker.pipeline.summarize):
        assert job(worker.ref(parked)).outcome == "parked"


def test_no_sweep_hints_it(redis_client: redis.Redis, worker: Worker, parked: str) -> None:
    Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0.0).run()

    assert (jobs.COMPACT, worker.ref(parked)) not in worker.hints.sent


def test_it_is_listed_with_what_it_failed_of(either: Surface, parked: str) -> None:
    [found] = either.parked()

    assert (found.session, found.failures, found.error) == (parked, 3, "KeyError")
    assert found.tokens > 700
    assert found.since_ms > 0


def test_nothing_is_listed_where_nothing_is_parked(either: Surface, full: str) -> None:
    assert either.parked() == []
    assert not either.retry(full)


def test_it_is_compacted_again_when_somebody_retries_it(
    either: Surface, client: ContextClient, worker: Worker, parked: str
) -> None:
    assert either.retry(parked)

    due_in_s = client.info(parked).due_in_s
    assert due_in_s is not None
    assert due_in_s <= 0
    assert either.parked() == []
    assert worker.pipeline.summarize(worker.ref(parked)).outcome == "committed"


def test_only_a_session_there_is_can_be_retried(either: Surface) -> None:
    with pytest.raises(UnknownSession):
        either.retry("nobody")


def test_another_policy_is_a_remedy(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, parked: str
) -> None:
    client.open(parked, Policy(max_tokens=600))

    worker.pipeline.estimate(worker.ref(parked))

    assert worker.hints.waiting(jobs.COMPACT) == 1
    assert not is_listed(redis_client, worker)
    assert client.info(parked).parked_for_s is None


def test_another_policy_ends_the_rest_after_a_failure(
    client: ContextClient, worker: Worker, full: str
) -> None:
    worker.pipeline.failed(worker.ref(full), "KeyError")
    client.open(full, Policy(max_tokens=600))

    worker.pipeline.estimate(worker.ref(full))

    due_in_s = client.info(full).due_in_s
    assert due_in_s is not None
    assert due_in_s <= 0
    assert client.info(full).failures == 0


@pytest.mark.parametrize(
    ("task", "error", "times"),
    [
        (jobs.COMPACT, KeyError(), 1),
        (jobs.SUMMARIZE, Transient(), 1),
        (jobs.ESTIMATE, KeyError(), 0),
        (jobs.FORCE, KeyError(), 0),
        (jobs.COMPACT, StoreUnavailable(), 0),
        (jobs.SUMMARIZE, ArchiveUnavailable(), 0),
    ],
)
def test_what_counts_is_a_compaction_that_fails_and_no_outage(
    client: ContextClient, worker: Worker, full: str, task: str, error: Exception, times: int
) -> None:
    parts: Any = SimpleNamespace(pipeline=worker.pipeline)

    tasks._count_failure(task, parts, worker.ref(full), error)

    assert client.info(full).failures == times


def test_a_summary_that_is_asked_for_and_succeeds_ends_it(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, parked: str
) -> None:
    worker.pipeline.force(worker.ref(parked), template="")

    assert client.info(parked).parked_for_s is None
    assert not is_listed(redis_client, worker)


@pytest.mark.usefixtures("parked")
@pytest.mark.parametrize("remedy", ["forget", "clear"])
def test_forgetting_and_clearing_end_it(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, remedy: str
) -> None:
    getattr(client, remedy)("s")

    assert not is_listed(redis_client, worker)
    client.push("s", LONG)
    assert client.info("s").failures == 0
    assert client.info("s").parked_for_s is None


@pytest.mark.usefixtures("parked")
def test_one_that_expired_is_listed_no_longer(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    redis_client.delete(*worker.keys("s").owned)

    assert client.parked() == []
    with pytest.raises(UnknownSession):
        client.retry("s")
    assert not is_listed(redis_client, worker)


def test_a_job_that_fails_gives_its_lease_up(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    with pytest.raises(ZeroDivisionError), worker.sessions.lease(worker.ref(full)):
        raise ZeroDivisionError

    assert redis_client.exists(worker.keys(full).lease) == 0
    assert client.info(full).due_in_s == pytest.approx(5, abs=1)
