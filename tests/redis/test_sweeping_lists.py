"""What a sweep finds, by Redis' clock alone, and what it leaves listed."""

from __future__ import annotations

import time

import pytest
import redis

from tests.processes import wait_until
from tests.properties.stepping import SentHints
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.keys import NAMESPACES, SWEEP_LEASE
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.background.sweep import ARCHIVE_EVERY, EXPIRY_EVERY, Sweeper, SweepThread
from turnmill_worker.store.leases import RedisSweepLease
from turnmill_worker.store.sweep_lists import RedisSweepLists

SMALL = Policy(max_tokens=512)
LONG = {"role": "user", "content": "word " * 60}


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
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


def test_long_passes_are_followed_by_long_pauses_in_which_nobody_else_sweeps(
    own_server: EmbeddedRedis,
) -> None:
    with redis.Redis.from_url(own_server.url) as server:
        server.sadd(NAMESPACES, *(f"n{at}" for at in range(200)))
        sweeper = Sweeper(RedisSweepLists(server), SentHints(), stale_after_s=2.0)
        thread = SweepThread(sweeper, RedisSweepLease(server), interval_s=0.01)
        thread.start()
        try:
            wait_until(lambda: server.pttl(SWEEP_LEASE) > 100, what="a pause")
        finally:
            thread.stop()

        assert not server.exists(SWEEP_LEASE)


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


def test_a_sweep_lease_of_a_clock_an_hour_ahead_keeps_nobody_from_sweeping(
    own_server: EmbeddedRedis,
) -> None:
    with redis.Redis.from_url(own_server.url) as server:
        server.set(SWEEP_LEASE, "gone", px=3_600_000)

        assert RedisSweepLease(server).take(hold_s=3)


def test_a_batch_is_looked_at_as_rarely_as_its_worker_said(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    redis_client.zincrby(worker.keys("s").due, 3_600_000, "s")
    redis_client.set(worker.keys("s").batch, "{}")
    before = redis_client.zscore(worker.keys("s").due, "s")

    RedisSweepLists(redis_client).drop_expired(worker.ref("s").namespace)

    assert redis_client.zscore(worker.keys("s").due, "s") == before


def test_a_session_that_waits_is_looked_at_ever_more_rarely_while_nobody_writes(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    sweeper = Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0.01)
    looks = 0

    def looked_at() -> None:
        nonlocal looks
        assert worker.pipeline.compact(worker.ref("s")).outcome == "needs-summary"
        looks += 1

    looked_at()
    ends = time.monotonic() + 2.0
    while time.monotonic() < ends:
        sweeper.run()
        hint = (jobs.COMPACT, worker.ref("s"))
        while hint in worker.hints.sent:
            worker.hints.sent.remove(hint)
            looked_at()
            sweeper.run()  # it is on no list for a while
        redis_client.zincrby(worker.keys("s").due, -60_000, "s")

    assert 3 <= looks <= 12
    assert worker.hints.waiting(jobs.SUMMARIZE) == 1
