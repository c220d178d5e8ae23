"""Questions while no worker is there to take them; a module of its own, so that none is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import asking, chat, question_keys
from turnmill import (
    ContextClient,
    NotAnswered,
)
from turnmill.client.requests import ask
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.names import Namespace

pytestmark = pytest.mark.worker


@pytest.fixture
def store(new_server: Callable[..., EmbeddedRedis]) -> EmbeddedRedis:
    """A server for each test: hints nobody took stay in its queues."""
    return new_server()


def test_a_question_no_worker_took_is_withdrawn_and_never_done(
    client: ContextClient, server: redis.Redis, new_worker: Callable[..., WorkerProcess]
) -> None:
    client.push_many([("s", turn) for turn in chat(4)])
    client.checkpoint("s", name="here")
    client.push_many([("s", turn) for turn in chat(4, topic="letter")])

    with pytest.raises(NotAnswered, match=r"no worker took it up within 1 s, .*'compact'"):
        client.rollback("s", timeout_s=1)

    assert question_keys(server, client.namespace, "ask") == []
    wait_until(lambda: server.llen("compact") == 1, what="its hint still waits")
    new_worker("late")
    wait_until(lambda: server.llen("compact") == 0 and client.info("s").counted_seq == 8)
    wait_until(lambda: client.info("s").pending_for_s is None)
    assert len(client.read("s").messages) == 8
    assert client.info("s").version == 0
    assert [each.id for each in client.checkpoints("s")] == ["here"]


def test_an_agent_that_died_leaves_a_question_that_expires(
    client: ContextClient, server: redis.Redis
) -> None:
    asked = ask(jobs.ROLLBACK, Namespace(client.namespace), "s", {"to": None}, timeout_s=5)

    client._put(asked)

    assert 0 < int(server.pttl(asked.keys.ask)) <= 6_000


def test_a_worker_that_died_over_a_question_is_not_waited_for_beyond_the_time(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])

    with asking(lambda: client.trajectory("s", timeout_s=2)) as raised:
        wait_until(lambda: question_keys(server, client.namespace, "ask"))
        # As a worker does that takes it and dies.
        server.delete(*question_keys(server, client.namespace, "ask"))

    assert [type(error) for error in raised] == [NotAnswered]
    assert "a worker took it up and is still at it after 2 s" in str(raised[0])
