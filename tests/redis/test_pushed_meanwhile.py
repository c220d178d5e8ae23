"""Turns pushed during a compaction: its end looks for what no push hinted."""

from __future__ import annotations

import redis

from tests.redis.conftest import Worker
from tests.redis.test_counting_and_committing import LONG, SMALL, commit_from
from turnmill import ContextClient
from turnmill.contract import jobs
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.store.sweep_lists import RedisSweepLists


def over_its_limit(client: ContextClient, worker: Worker) -> str:
    """A session whose turns were counted."""
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    return "s"


def test_a_session_that_turns_pushed_meanwhile_put_over_its_limit_has_a_job_at_once(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    full = over_its_limit(client, worker)
    args, options = commit_from(worker, worker.sessions.snapshot(worker.ref(full)))
    client.push_many([(full, LONG)] * 12)  # nobody counts them, and no push follows

    committed = worker.sessions.commit(*args, **options)

    assert committed.again
    assert redis_client.zscore(worker.keys(full).due, full) is not None
    assert worker.pipeline.summarize(worker.ref(full)).outcome == "committed"


def test_turns_pushed_to_a_session_that_is_given_up_meanwhile_are_counted_at_once(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    full = over_its_limit(client, worker)
    with worker.sessions.lease(worker.ref(full)) as lease:
        assert lease is not None
        snapshot = worker.sessions.snapshot(worker.ref(full))
        assert snapshot is not None
        client.push(full, {"role": "user", "content": "one word more"})

        lease.release(snapshot)

    assert redis_client.zscore(worker.keys(full).due, full) is None
    Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0).run()
    assert (jobs.ESTIMATE, worker.ref(full)) in worker.hints.sent
