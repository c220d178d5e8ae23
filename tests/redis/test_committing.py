"""Counts, leases, commits and checkpoints are conditional writes."""

from __future__ import annotations

import pytest
import redis

from tests.redis.conftest import Surface, Worker, commit_from
from turnmill import ContextClient, Policy
from turnmill.contract.names import Seq
from turnmill_worker.ports.values import CountedTurn, Counts, Uncounted
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

# --- The workers' half of the protocol: counts, leases and commits are conditional writes.


LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512)


@pytest.fixture
def full(client: ContextClient, worker: Worker) -> str:
    """A session over its soft limit whose turns were counted."""
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    return "s"


def test_a_turn_pushed_during_a_compaction_is_kept_and_does_not_undo_it(
    client: ContextClient, worker: Worker, full: str
) -> None:
    args, options = commit_from(worker, worker.sessions.snapshot(worker.ref(full)))
    client.push(full, {"role": "user", "content": "meanwhile"})

    committed = worker.sessions.commit(*args, **options)

    assert committed.version == 1
    assert client.read(full).messages[-1]["content"] == "meanwhile"


def test_the_second_of_two_compactions_planned_at_once_is_refused(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    snapshot = worker.sessions.snapshot(worker.ref(full))
    args, options = commit_from(worker, snapshot)
    worker.sessions.commit(*args, **options)
    before = client.read(full)

    committed = worker.sessions.commit(*args, **options)

    assert committed.version == 0
    assert client.read(full) == before
    assert redis_client.xlen(worker.keys(full).compactions) == 1


def test_a_compaction_of_a_forgotten_session_does_not_reach_its_successor(
    client: ContextClient, worker: Worker, full: str
) -> None:
    args, options = commit_from(worker, worker.sessions.snapshot(worker.ref(full)))
    client.forget(full)
    client.open(full, SMALL)
    client.push_many([(full, LONG)] * 2)

    committed = worker.sessions.commit(*args, **options)

    assert committed.version == 0
    assert client.read(full).watermark == 0


def test_a_compaction_planned_under_another_policy_is_refused(
    client: ContextClient, worker: Worker, full: str
) -> None:
    args, options = commit_from(worker, worker.sessions.snapshot(worker.ref(full)))
    client.open(full, Policy(max_tokens=8192))

    committed = worker.sessions.commit(*args, **options)

    assert committed.version == 0


def test_a_policy_made_smaller_during_a_compaction_is_not_forgotten(
    client: ContextClient, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=2048))
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    with worker.sessions.lease(worker.ref("s")) as lease:
        assert lease is not None
        snapshot = worker.sessions.snapshot(worker.ref("s"))
        assert snapshot is not None
        client.open("s", SMALL)
        worker.pipeline.estimate(worker.ref("s"))

        again = lease.release(snapshot)

    assert again
    assert client.info("s").due_in_s is not None


def test_one_worker_at_a_time_holds_a_lease(worker: Worker, full: str) -> None:
    with (
        worker.sessions.lease(worker.ref(full)) as first,
        worker.sessions.lease(worker.ref(full)) as second,
    ):
        assert first is not None
        assert second is None


def test_a_session_whose_worker_died_is_due_when_the_lease_runs_out(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    with worker.sessions.lease(worker.ref(full)):
        pass  # left without a release: as a worker that was killed

    held_ms = int(redis_client.pttl(worker.keys(full).lease))
    due_in_s = client.info(full).due_in_s
    assert due_in_s is not None
    assert due_in_s == pytest.approx(held_ms / 1000, abs=1)


def test_a_lease_lost_to_another_worker_releases_nothing(
    redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    with worker.sessions.lease(worker.ref(full)) as late:
        assert late is not None
        redis_client.delete(worker.keys(full).lease)
        with worker.sessions.lease(worker.ref(full)):
            late.retry(after_s=0)
            holder = redis_client.get(worker.keys(full).lease)

    assert holder not in (None, late.owner.encode())


def first_counted(seen: Uncounted) -> Counts:
    """What a job brings that has counted the first of the turns."""
    turns = [CountedTurn(seen.turns[0].seq, 64)]
    return Counts(basis="test/1", system_tokens=0, open_calls=[], due=False, turns=turns)


def test_counts_brought_twice_are_stored_once(client: ContextClient, worker: Worker) -> None:
    client.push("s", LONG)
    seen = worker.sessions.uncounted(worker.ref("s"), most=10)
    assert seen is not None
    brought = first_counted(seen)
    first = worker.sessions.record_counts(worker.ref("s"), seen, brought)

    second = worker.sessions.record_counts(worker.ref("s"), seen, brought)

    assert (first.stale, second.stale) == (False, True)
    assert client.info("s").usage.tail == 64


def test_counts_made_before_a_policy_change_are_refused(
    client: ContextClient, worker: Worker
) -> None:
    client.push("s", LONG)
    seen = worker.sessions.uncounted(worker.ref("s"), most=10)
    assert seen is not None
    client.open("s", SMALL)

    recorded = worker.sessions.record_counts(worker.ref("s"), seen, first_counted(seen))

    assert recorded.stale
    assert client.info("s").counted_seq == 0


def test_a_session_stays_in_the_backlog_while_a_newer_turn_waits(
    client: ContextClient, worker: Worker
) -> None:
    client.push("s", LONG)
    seen = worker.sessions.uncounted(worker.ref("s"), most=10)
    assert seen is not None
    client.push("s", LONG)

    recorded = worker.sessions.record_counts(worker.ref("s"), seen, first_counted(seen))

    assert recorded.waiting
    assert client.info("s").pending_for_s is not None


# --- Checkpoints: made by themselves every few turns or by name, kept to a number, with a lifetime.


SHORT = {"role": "user", "content": "word"}
EVERY_TWO = Policy(max_tokens=512, checkpoint_interval=2, keep_checkpoints=3, ttl_s=60)


@pytest.fixture
def rollback(redis_client: redis.Redis) -> Rollback:
    return Rollback(RedisStates(redis_client), None, counter_for)


def test_only_the_newest_are_kept_and_each_kind_for_itself(either: Surface) -> None:
    either.open("s", EVERY_TWO)
    for at in range(5):
        either.checkpoint("s", name=f"mark {at}")

    either.push_many([("s", SHORT)] * 12)

    found = either.checkpoints("s")
    assert [c.seq for c in found if c.automatic] == [8, 10, 12]
    assert [c.id for c in found if not c.automatic] == ["mark 2", "mark 3", "mark 4"]


def test_a_count_under_way_is_refused_after_a_rollback(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(checkpoint_interval=0))
    either.checkpoint("s", name="empty")
    either.push("s", LONG)
    ref = worker.ref("s")
    seen = worker.sessions.uncounted(ref, most=10)
    assert seen is not None

    rollback.rollback(ref, "empty")
    recorded = worker.sessions.record_counts(
        ref,
        seen,
        Counts(
            basis="o200k_base/1",
            system_tokens=0,
            open_calls=(),
            due=False,
            turns=[CountedTurn(Seq(1), 61)],
        ),
    )

    assert recorded.stale
    assert either.info("s").usage.tail == 0


def test_a_managed_summary_looks_back_at_no_turn_that_was_rolled_back(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(max_tokens=512, checkpoint_interval=0))
    either.push("s", LONG)
    either.checkpoint("s", name="here")
    either.push_many([("s", LONG)] * 11)
    assert worker.work("s") == "committed"
    ref = worker.ref("s")
    epoch = RedisStates(worker.sessions._redis).past(ref)
    assert epoch is not None

    rollback.rollback(ref, "here")

    covered = worker.sessions.covered(ref, epoch.epoch, first_seq=1, last_seq=12)
    assert [turn.seq for turn in covered] == [1]
