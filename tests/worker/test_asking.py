"""What agents ask workers for is done once or not at all, and never after it was withdrawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    Events,
    NewServer,
    NewWorker,
    asking,
    chat,
    keys_of,
    question_keys,
    send,
)
from turnmill import (
    ContextClient,
    CorruptContext,
    InvalidInput,
    NoCheckpoint,
    NotAnswered,
    UnknownSession,
    UnknownTemplate,
)
from turnmill.client.requests import ask
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.codec import decode_json
from turnmill.contract.names import Namespace

pytestmark = pytest.mark.worker


def _told(events: Events) -> dict[str, int]:
    found = Counter(events.outcomes("s"))
    return {outcome: found[outcome] for outcome in ("answered", "late")}


def test_a_hint_delivered_many_times_is_answered_once(
    client: ContextClient, server: redis.Redis, store: EmbeddedRedis, new_worker: NewWorker
) -> None:
    for name in ("one", "two"):
        new_worker(name, pool="threads", concurrency=2)
    client.push_many([("s", turn) for turn in chat(10)])
    client.checkpoint("s", name="here")
    client.push_many([("s", turn) for turn in chat(10)])
    asked = ask(jobs.ROLLBACK, Namespace(client.namespace), "s", {"to": "here"}, timeout_s=60)

    with Events(store.url) as events:
        server.set(asked.keys.ask, asked.body, px=60_000)
        for _ in range(12):
            send(store.url, jobs.ROLLBACK, client.namespace, "s", asked.id)
        wait_until(
            lambda: _told(events) == {"answered": 1, "late": 11},
            what=lambda: str(Counter(events.outcomes("s"))),
        )

    answers: Any = server.lrange(asked.keys.answer, 0, -1)
    assert [decode_json(each)["answer"]["turns_lost"] for each in answers] == [10]
    assert 0 < int(server.pttl(asked.keys.answer)) <= 60_000
    assert client.info("s").version == 1


@pytest.mark.usefixtures("worker")
def test_errors_cross_over_as_what_they_are(client: ContextClient, server: redis.Redis) -> None:
    client.push("s", {"role": "user", "content": "Hello."})

    with pytest.raises(UnknownSession, match="'nobody'"):
        client.rollback("nobody")
    with pytest.raises(UnknownSession, match="'nobody'"):
        client.trajectory("nobody")
    with pytest.raises(UnknownSession, match="'nobody'"):
        client.summarize("nobody")
    with pytest.raises(NoCheckpoint, match="checkpoints are: none"):
        client.rollback("s")
    with pytest.raises(NoCheckpoint, match="'nothing'"):
        client.rollback("s", "nothing")
    with pytest.raises(NoCheckpoint, match="version 7"):
        client.rollback("s", 7)
    with pytest.raises(UnknownTemplate, match="'nothing'"):
        client.summarize("s", template="nothing")
    assert not server.exists(keys_of(client, "s").lease)
    with pytest.raises(InvalidInput, match="TURNMILL_ARCHIVE_URL=none"):
        client.ground("anything")
    with pytest.raises(InvalidInput, match="TURNMILL_ARCHIVE_URL=none"):
        client.remember("anything")


@pytest.mark.usefixtures("worker")
def test_a_worker_that_meets_a_defect_says_so_at_once(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])
    server.set(keys_of(client, "s").context, b"no JSON")

    # Were it not answered, this would be a NotAnswered.
    with pytest.raises(CorruptContext, match="stored context") as caught:
        client.summarize("s", timeout_s=60)

    assert "no JSON" not in str(caught.value)


@pytest.mark.usefixtures("worker")
def test_questions_and_answers_leave_nothing_behind(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])

    client.trajectory("s")
    client.summarize("s")

    assert question_keys(server, client.namespace, "ask") == []
    assert question_keys(server, client.namespace, "answer") == []


# Where no worker is


@pytest.fixture
def unserved(new_server: NewServer, namespace: str) -> Iterator[tuple[ContextClient, redis.Redis]]:
    """A client of a server that no worker reads."""
    url = new_server().url
    with ContextClient(url, namespace=namespace) as client, redis.Redis.from_url(url) as server:
        yield client, server


def test_a_question_no_worker_took_is_withdrawn_and_never_done(
    unserved: tuple[ContextClient, redis.Redis], tmp_path: Path
) -> None:
    client, server = unserved
    client.push_many([("s", turn) for turn in chat(4)])
    client.checkpoint("s", name="here")
    client.push_many([("s", turn) for turn in chat(4, topic="letter")])

    with pytest.raises(NotAnswered, match=r"no worker took it up within 1 s, .*'compact'"):
        client.rollback("s", timeout_s=1)
    with pytest.raises(NotAnswered, match=r"^turnmill\.fork of 's': no worker"):
        client.fork("s", "other", timeout_s=0)
    with pytest.raises(NotAnswered, match=r"^turnmill\.rewind of 's': no worker"):
        client.rewind("s", at=2, timeout_s=0)

    assert question_keys(server, client.namespace, "ask") == []
    wait_until(lambda: server.llen("compact") >= 1, what="its hint still waits")
    port = server.connection_pool.connection_kwargs["port"]
    with WorkerProcess(f"redis://127.0.0.1:{port}/0", tmp_path, name="late"):
        wait_until(lambda: server.llen("compact") == 0 and client.info("s").counted_seq == 8)
        wait_until(lambda: client.info("s").pending_for_s is None)
        assert len(client.read("s").messages) == 8
        assert client.info("s").version == 0
        assert [each.id for each in client.checkpoints("s")] == ["here"]


def test_a_worker_that_died_over_a_question_is_not_waited_for_beyond_the_time(
    unserved: tuple[ContextClient, redis.Redis],
) -> None:
    client, server = unserved
    client.push_many([("s", turn) for turn in chat(20)])

    with asking(lambda: client.trajectory("s", timeout_s=4)) as raised:
        wait_until(lambda: question_keys(server, client.namespace, "ask"))
        [asked] = question_keys(server, client.namespace, "ask")
        assert 0 < int(server.pttl(asked)) <= 5_000, "it expires if its agent dies"
        server.delete(asked)  # as a worker does that takes it and dies

    assert [type(error) for error in raised] == [NotAnswered]
    assert "a worker took it up and is still at it after 4 s" in str(raised[0])
