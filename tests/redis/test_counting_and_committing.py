"""The workers' half of the protocol: counts, leases and commits are conditional writes."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.legality import CallTracker
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.ports.values import CountedTurn, Counts, Uncounted
from turnmill_worker.store.sweep_lists import RedisSweepLists
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512)


@pytest.fixture
def full(client: ContextClient, worker: Worker) -> str:
    """A session over its soft limit whose turns were counted."""
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    return "s"


def commit_from(worker: Worker, snapshot: Snapshot | None) -> tuple[Any, ...]:
    """What a worker would commit from this snapshot: arguments for ``sessions.commit``."""
    assert snapshot is not None
    kept: dict[str, Any] = {}

    class Catching:
        """A worker that thinks until it would commit, and then is asked what."""

        def __getattr__(self, name: str) -> Any:
            return getattr(worker.sessions, name)

        def snapshot(self, _ref: object) -> Snapshot | None:
            return snapshot

        def commit(self, *args: Any, **options: Any) -> Any:
            kept.update(args=args, options=options)
            raise KeyboardInterrupt

    pipeline = type(worker.pipeline)(
        sessions=Catching(),
        hints=worker.hints,
        counters=worker.pipeline._ports.counters,
        summarizers=lambda _policy: [ExtractiveSummarizer()],
        templates=TemplateLoader(),
    )
    with pytest.raises(KeyboardInterrupt):
        pipeline.summarize(worker.ref(snapshot.session))
    return kept["args"], kept["options"]


def test_a_commit_raises_the_version_by_one(
    client: ContextClient, worker: Worker, full: str
) -> None:
    outcome = worker.work(full)

    assert outcome == "committed"
    assert client.read(full).version == 1


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


def test_a_lease_of_an_unknown_session_is_not_given(worker: Worker) -> None:
    with worker.sessions.lease(worker.ref("nobody")) as lease:
        assert lease is None


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


def test_another_encoding_counts_everything_again(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    client.push(full, {"role": "user", "content": "我们明天去北京。" * 9})
    worker.work(full)

    client.open(full, SMALL.model_copy(update={"encoding": "cl100k_base"}))
    worker.pipeline.estimate(worker.ref(full))

    count = counter_for("cl100k_base").count_messages
    snapshot = worker.sessions.snapshot(worker.ref(full))
    assert snapshot is not None
    tracker = CallTracker()
    again = [count(tracker.repair(turn.shown)) for turn in snapshot.turns]
    assert [turn.tokens for turn in snapshot.turns] == again
    assert redis_client.hget(worker.keys(full).meta, "basis") == b"cl100k_base/2/gpt-4o"


def test_a_sweep_hints_what_nobody_was_told(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push("s", LONG)

    Sweeper(RedisSweepLists(redis_client), worker.hints, stale_after_s=0).run()

    assert (jobs.ESTIMATE, worker.ref("s")) in worker.hints.sent


def test_jobs_of_unknown_sessions_do_nothing(worker: Worker) -> None:
    outcomes = [
        worker.pipeline.estimate(worker.ref("nobody")).outcome,
        worker.pipeline.compact(worker.ref("nobody")).outcome,
    ]

    assert outcomes[0] == "unknown"
    assert worker.hints.sent == []
