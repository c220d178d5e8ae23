"""With TURNMILL_ARCHIVE_REPLICAS nothing is archived that a promoted replica would not have."""

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
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.errors import StoreUnavailable
from turnmill_worker.archive import SqlArchive
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing


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
