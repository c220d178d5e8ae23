"""Which pushes need a hint: those after which something may be due, and that nobody sees to yet."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import Policy
from turnmill.connection.transport import redis_now_ms
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.push.push_calls import QUIET_MS

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
    "policy", [Policy(max_tokens=2000), Policy(max_tokens=2000, strategies=("window",))]
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


def test_a_policy_that_counts_interactions_is_looked_after_at_every_push(
    either: Surface, worker: Worker
) -> None:
    either.open("s", Policy.sliding_window(max_interactions=2))
    for hints in range(1, 5):
        worker.pipeline.estimate(worker.ref("s"))
        assert not list(worker.pipeline.waiting(worker.ref("s")))

        either.push("s", HI)

        assert either.hints.dropped == hints + 1


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


def test_a_push_after_a_shards_job_is_done_hints_at_once(either: Surface, worker: Worker) -> None:
    one, two, _ = neighbours()
    either.push(one, HI)
    worker.pipeline.estimate(worker.ref(one))
    assert not list(worker.pipeline.waiting(worker.ref(one)))

    either.push(two, HI)

    assert either.hints.dropped == 2


def test_a_session_that_cannot_be_counted_is_not_hinted_by_every_push(
    either: Surface, worker: Worker
) -> None:
    either.push("s", HI)
    worker.pipeline.postpone(worker.ref("s"))
    assert not list(worker.pipeline.waiting(worker.ref("s")))

    either.push_many([("s", HI)] * 3)

    assert either.hints.dropped == 1


def neighbours() -> tuple[str, str, str]:
    """Two sessions of one shard, and one of another."""
    names = [f"s{at}" for at in range(1000)]
    first, *others = names
    same = next(name for name in others if shard(name) == shard(first))
    return first, same, next(name for name in others if shard(name) != shard(first))


def shard(name: str) -> int:
    return shard_of(SessionId(name))
