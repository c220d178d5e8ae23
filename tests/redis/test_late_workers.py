"""While workers are late, what was asked of them is not asked again and again."""

from __future__ import annotations

import time

import redis

from tests.properties.stepping import SentHints
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.store.sweep_lists import RedisSweepLists

SMALL = Policy(max_tokens=512)
LONG = {"role": "user", "content": "word " * 60}


def test_workers_that_sweep_in_turns_with_long_passes_do_not_fill_the_queues(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    names = [f"s{at}" for at in range(60)]
    for name in names:
        client.open(name, SMALL)
        client.push_many([(name, LONG)] * 12)
        worker.pipeline.estimate(worker.ref(name))
    lists, queue = RedisSweepLists(redis_client), SentHints()
    sweepers = [Sweeper(lists, queue, stale_after_s=0.01) for _ in range(2)]

    for _ in range(12):
        for sweeper in sweepers:
            time.sleep(0.05)  # longer than it would have to remember two hints
            sweeper.run()

    assert len(names) <= len(queue.sent) <= 3 * len(names)


def test_pushes_ask_ever_more_rarely_for_a_count(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    keys = worker.keys("s")
    assert redis_client.pttl(keys.hinted) <= 1000

    redis_client.zincrby(keys.backlog, -4000, "s")
    redis_client.delete(keys.hinted)  # a second later
    client.push("s", LONG)
    assert 3000 < redis_client.pttl(keys.hinted) <= 5000

    redis_client.zincrby(keys.backlog, -3_600_000, "s")
    redis_client.delete(keys.hinted)
    client.push("s", LONG)
    assert 9000 < redis_client.pttl(keys.hinted) <= 10_000
