"""Workers are told when something can be due, and no more often than that."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from tests.properties.stepping import SentHints
from tests.redis.conftest import Surface, Worker, commit_from
from turnmill import ContextClient, Policy
from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.push.push_calls import QUIET_MS
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.store.sweep_lists import RedisSweepLists

# --- Which pushes need a hint: those after which something may be due, and that nobody sees to yet.


HI = {"role": "user", "content": "hi"}


def test_a_push_of_a_new_session_needs_one_hint_until_a_worker_has_been_there(
    either: Surface,
) -> None:
    either.push_many([("s", HI)] * 3)

    assert either.hints.dropped == 1
    assert either.info("s").pending_for_s is not None


def test_a_push_needs_no_hint_while_nothing_can_be_due(either: Surface, worker: Worker) -> None:
    either.push("s", HI)
    worker.pipeline.estimate(worker.ref("s"))

    either.push_many([("s", HI)] * 50)

    assert either.hints.dropped == 1


def test_turns_that_make_nothing_due_are_counted_when_somebody_looks_or_in_a_minute(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    either.push("s", HI)
    worker.pipeline.estimate(worker.ref("s"))
    either.push("s", HI)

    assert either.info("s").pending_for_s is None
    assert either.hints.dropped == 2
    listed_at: Any = redis_client.zscore(worker.keys("s").backlog, "s")
    assert listed_at - redis_now_ms(redis_client) == pytest.approx(QUIET_MS, abs=5_000)


@pytest.mark.parametrize(
    "policy",
    [Policy(max_tokens=2000), Policy(max_tokens=2000, strategies=("window",))],
    ids=["default", "window"],
)
def test_no_read_projects_that_a_count_in_time_would_have_spared(
    either: Surface, worker: Worker, redis_client: redis.Redis, policy: Policy
) -> None:
    """A worker that comes between two steps, when hinted, is in time: the point of the bounds."""
    either.open("s", policy)
    hints = 0
    for at in range(200):
        if either.hints.dropped > hints:
            hints = either.hints.dropped
            worker.pipeline.estimate(worker.ref("s"))
            assert not list(worker.pipeline.waiting(worker.ref("s")))
            if redis_client.zscore(worker.keys("s").due, "s"):
                worker.pipeline.summarize(worker.ref("s"))

        parcel = f"Anna wants parcel {at * 17} brought to street {at * 7} by noon, not before."
        either.push("s", {"role": "user", "content": parcel})

        assert either.read("s").projection is None

    assert either.info("s").compactions > 1
    assert hints < 50


def test_a_session_over_its_limit_is_hinted_for_a_quarter_of_it_and_not_at_every_push(
    either: Surface, worker: Worker
) -> None:
    """Its job is on the way, and counts all there is; only a projection goes by the bounds."""
    policy = Policy(max_tokens=2000)
    parcel = {"role": "user", "content": "Anna wants parcel 17 brought to street 7 by noon. " * 6}
    either.open("s", policy)
    either.push_many([("s", parcel)] * 40)
    worker.pipeline.estimate(worker.ref("s"))
    assert not list(worker.pipeline.waiting(worker.ref("s")))
    before = either.info("s")
    assert before.usage.total > policy.hard_limit
    assert before.due_in_s is not None
    hinted = either.hints.dropped

    pushes = 0
    while either.hints.dropped == hinted:
        either.push("s", parcel)
        pushes += 1
        assert either.read("s").tokens <= policy.hard_limit

    pending = either.info("s").usage.pending
    assert (pushes - 1) / pushes * pending < policy.hard_limit / 4 <= pending


def test_sessions_of_a_shard_that_wait_together_need_one_hint(
    either: Surface, worker: Worker
) -> None:
    one, two, elsewhere = neighbours()

    for session in (one, two, elsewhere):
        either.push(session, HI)

    assert either.hints.dropped == 2
    assert set(worker.pipeline.waiting(worker.ref(one))) == {worker.ref(one), worker.ref(two)}


def test_a_hint_that_got_lost_keeps_others_waiting_for_a_second_at_most(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    one, two, _ = neighbours()
    either.push(one, HI)
    left_ms: Any = redis_client.pttl(worker.keys(one).hinted)
    redis_client.delete(worker.keys(one).hinted)  # as if it had expired

    either.push(two, HI)

    assert 0 < left_ms <= 1000
    assert either.hints.dropped == 2


def neighbours() -> tuple[str, str, str]:
    """Two sessions of one shard, and one of another."""
    names = [f"s{at}" for at in range(1000)]
    first, *others = names
    same = next(name for name in others if shard(name) == shard(first))
    return first, same, next(name for name in others if shard(name) != shard(first))


def shard(name: str) -> int:
    return shard_of(SessionId(name))


# --- While workers are late, what was asked of them is not asked again and again.


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


# --- Turns pushed during a compaction: its end looks for what no push hinted.


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
