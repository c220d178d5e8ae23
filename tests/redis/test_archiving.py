"""Archive jobs store what sessions left, together and each on its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.processes import wait_until
from tests.redis.conftest import SHOP, Worker
from turnmill import ArchiveUnavailable, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.errors import StoreUnavailable
from turnmill_worker.archive import SqlArchive
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.ports.protocols import DRAIN_WITHIN_S
from turnmill_worker.ports.values import Removed
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import LATE_DRAIN_MS, RedisOutgoing

# --- One archive job stores what all sessions of a namespace left: together, and each on its own.


SMALL = Policy(max_tokens=512)
LONG = {"role": "user", "content": "word " * 60}
MANY = 40


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[SqlArchive]:
    with closing(SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")) as opened:
        yield opened


@pytest.fixture
def archiving(archive: SqlArchive, worker: Worker, redis_client: redis.Redis) -> Archiving:
    return Archiving(RedisOutgoing(redis_client), RedisStates(redis_client), archive, worker.hints)


def _compacted(client: ContextClient, worker: Worker, session: str) -> int:
    """Push until turns have left the log; returns how many have."""
    client.open(session, SMALL)
    client.push_many([(session, LONG)] * 12)
    assert worker.work(session) == "committed"
    return client.info(session).watermark


def test_one_job_stores_what_many_sessions_left(
    client: ContextClient, worker: Worker, archive: SqlArchive, archiving: Archiving
) -> None:
    covered = {f"s{at}": _compacted(client, worker, f"s{at}") for at in range(MANY)}

    outcome = archiving.archive(worker.ref("s0"))

    assert (outcome.outcome, outcome.sessions) == ("archived", MANY)
    assert outcome.turns == sum(covered.values()) > 0
    for session, watermark in covered.items():
        assert archive.left(worker.ref(session)).turns == watermark
        assert [each.version for each in archive.compactions(worker.ref(session))] == [1]


def test_a_session_that_cannot_be_archived_stops_no_other(
    client: ContextClient,
    worker: Worker,
    archive: SqlArchive,
    archiving: Archiving,
    redis_client: redis.Redis,
) -> None:
    covered = {f"s{at}": _compacted(client, worker, f"s{at}") for at in range(9)}
    redis_client.xadd(worker.keys("s4").covered, {"seq": "not a number"})

    with pytest.raises(ValueError, match="not a number"):
        archiving.archive(worker.ref("s0"))

    for session, watermark in covered.items():
        expected = 0 if session == "s4" else watermark
        assert archive.left(worker.ref(session)).turns == expected
    assert redis_client.xlen(worker.keys("s4").covered) == covered["s4"] + 1


def test_a_drain_is_bounded_by_bytes_and_takes_one_turn_at_least(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    watermark = _compacted(client, worker, "s")
    ref, outgoing = worker.ref("s"), RedisOutgoing(redis_client)
    seen: list[list[int]] = []

    while drains := outgoing.next_drains([ref], turns=100, size=800):
        seen.append([turn.seq for step in drains[ref].steps for turn in getattr(step, "turns", ())])
        outgoing.trim(drains)

    assert [seq for turns in seen for seq in turns] == list(range(1, watermark + 1))
    assert {len(turns) for turns in seen} <= {0, 1, 2}


@pytest.mark.parametrize("begins_again", [False, True])
def test_only_who_was_forgotten_leaves_the_archive_and_not_who_is_missing(
    client: ContextClient,
    worker: Worker,
    archive: SqlArchive,
    archiving: Archiving,
    redis_client: redis.Redis,
    *,
    begins_again: bool,
) -> None:
    client.push("s", LONG)
    client.forget("s")  # an incarnation before it
    _compacted(client, worker, "s")
    outgoing = RedisOutgoing(redis_client)
    held = outgoing.next_drains([worker.ref("s")], turns=100, size=10**6)
    archive.drain(held)
    redis_client.delete(*worker.keys("s").owned)
    if begins_again:
        client.push("s", LONG)

    assert outgoing.trim(held) == {worker.ref("s"): "lost"}
    archiving.forget(worker.ref("s"))
    assert archive.left(worker.ref("s")).turns > 0

    client.forget("s")
    assert outgoing.trim(held) == {worker.ref("s"): "forgotten"}
    archiving.forget(worker.ref("s"))
    assert archive.left(worker.ref("s")) == Removed()


def test_what_was_read_before_the_last_look_for_late_drains_is_not_stored(
    client: ContextClient,
    worker: Worker,
    archive: SqlArchive,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker was stopped so long that nobody would look for what it stores any more."""
    _compacted(client, worker, "s")
    monkeypatch.setattr("turnmill_worker.store.outgoing.DRAIN_WITHIN_S", -1.0)
    late = RedisOutgoing(redis_client).next_drains([worker.ref("s")], turns=100, size=10**6)

    with pytest.raises(ArchiveUnavailable, match="too long"):
        archive.drain(late)

    assert archive.left(worker.ref("s")) == Removed()
    assert LATE_DRAIN_MS > 1000 * DRAIN_WITHIN_S


# --- With TURNMILL_ARCHIVE_REPLICAS nothing is archived that a promoted replica would not have.


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[EmbeddedRedis, EmbeddedRedis]]:
    """A primary and its replica, in step."""
    binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
    primary = EmbeddedRedis(tmp_path / "primary", durable=False, binary=binary)
    replica = EmbeddedRedis(tmp_path / "replica", durable=False, binary=binary)
    with primary, replica:
        with redis.Redis.from_url(replica.url) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
            wait_until(
                lambda: client.info("replication")["master_link_status"] == "up", what="in step"
            )
        yield primary, replica


def test_a_turn_is_archived_only_when_a_replica_has_it(
    servers: tuple[EmbeddedRedis, EmbeddedRedis], tmp_path: Path
) -> None:
    primary, replica = servers
    client = redis.Redis.from_url(primary.url)
    worker = Worker(client, SHOP)
    agent = ContextClient(primary.url, namespace=SHOP, broker=SilentWaker())
    archive = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    outgoing = RedisOutgoing(client, replicas=1)
    archiving = Archiving(outgoing, RedisStates(client), archive, worker.hints)
    with closing(client), agent, closing(archive):
        agent.open("s", Policy(max_tokens=512))
        agent.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
        assert replica.pid is not None
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            assert worker.work("s") == "committed"

            with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
                archiving.archive(worker.ref("s"))

            assert archive.turns(worker.ref("s")) == []
            assert agent.info("s").turns_covered > 0
        finally:
            os.kill(replica.pid, signal.SIGCONT)

        archiving.archive(worker.ref("s"))

        assert len(archive.turns(worker.ref("s"))) == agent.info("s").watermark
