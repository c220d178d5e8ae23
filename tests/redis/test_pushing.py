"""Pushes: one atomic call of constant cost; the same id is the same turn."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import ContextClient, Policy
from turnmill.commands import DEDUPE_WINDOW
from turnmill.commands.pushing import QUIET_MS
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.transport import redis_now_ms

HI = {"role": "user", "content": "hi"}


def calls(redis_client: redis.Redis) -> dict[str, int]:
    """How often each Redis command ran so far, but for those of looking."""
    stats: Any = redis_client.info("commandstats")
    return {name: row["calls"] for name, row in stats.items() if "info" not in name}


def cost_of_a_push(client: ContextClient, redis_client: redis.Redis, session: str) -> int:
    before = calls(redis_client)
    client.push(session, HI)
    return sum(calls(redis_client).values()) - sum(before.values())


def test_a_push_costs_as_many_commands_after_ten_thousand_turns_as_after_ten(
    client: ContextClient, redis_client: redis.Redis
) -> None:
    client.push_many([("short", HI)] * 10)
    client.push_many([("long", HI)] * 10_000)

    short, long = (cost_of_a_push(client, redis_client, name) for name in ("short", "long"))

    assert long - short <= 1  # the dedupe window is full: its oldest id leaves


def test_turns_get_the_seqs_one_two_three(either: Surface) -> None:
    seqs = [either.push("s", HI).seq for _ in range(3)]

    assert seqs == [1, 2, 3]


def test_the_same_turn_id_gets_the_same_seq_and_stores_nothing(either: Surface) -> None:
    either.push("s", HI)
    first = either.push("s", HI, turn_id="t")

    again = either.push("s", {"role": "user", "content": "other"}, turn_id="t")

    assert (again.seq, again.duplicate, first.duplicate) == (first.seq, True, False)
    assert either.info("s").turns_in_log == 2


def test_the_same_turn_id_in_two_sessions_is_two_turns(either: Surface) -> None:
    either.push("one", HI, turn_id="t")

    pushed = either.push("other", HI, turn_id="t")

    assert not pushed.duplicate


def test_a_turn_id_is_known_after_its_turn_was_compacted(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push("s", HI, turn_id="t")
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    worker.work("s")

    again = either.push("s", HI, turn_id="t")

    assert (again.seq, again.duplicate) == (1, True)
    assert either.info("s").watermark > 1


def test_the_dedupe_window_is_bounded(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push_many([("s", HI)] * (DEDUPE_WINDOW + 20))

    assert redis_client.zcard(worker.keys("s").ids) == DEDUPE_WINDOW


def test_push_many_keeps_the_order_within_each_session(either: Surface) -> None:
    pairs = [(f"s{at % 3}", {"role": "user", "content": str(at)}) for at in range(1200)]
    either.open("s1", Policy(max_tokens=100_000))

    pushed = either.push_many(pairs)

    assert [each.seq for each in pushed] == [at // 3 + 1 for at in range(1200)]
    contents = [message["content"] for message in either.read("s1").messages]
    assert contents == [str(at) for at in range(1, 1200, 3)]


def test_one_bad_turn_of_many_stores_none(either: Surface) -> None:
    try:
        either.push_many([("s", HI), ("s", {"role": "nobody", "content": "hi"})])
    except ValueError as error:
        message = str(error)

    assert message.startswith("turns[1]: ")
    assert either.sessions() == []


def test_pushing_on_after_scripts_were_flushed_works(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.push("s", HI)
    redis_client.script_flush()

    pushed = either.push("s", HI)

    assert pushed.seq == 2


def test_push_many_after_scripts_were_flushed_reports_new_turns_as_new(
    either: Surface, redis_client: redis.Redis
) -> None:
    redis_client.script_flush()

    pushed = either.push_many([("s", HI)] * 5)

    assert [(each.seq, each.duplicate) for each in pushed] == [(at, False) for at in range(1, 6)]


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
