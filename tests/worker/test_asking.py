"""What agents ask workers for is done once or not at all, and never after it was withdrawn."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import Events, chat, keys_of, push_all, question_keys, send
from turnmill import (
    ContextClient,
    CorruptContext,
    InvalidInput,
    NoCheckpoint,
    SessionBusy,
    UnknownSession,
    UnknownTemplate,
)
from turnmill.client.requests import ask
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.codec import decode_json
from turnmill.contract.keys import ask_keys
from turnmill.contract.names import Namespace

pytestmark = pytest.mark.worker


def _told(events: Events) -> dict[str, int]:
    found = Counter(events.outcomes("s"))
    return {outcome: found[outcome] for outcome in ("answered", "late")}


def test_a_hint_delivered_many_times_is_answered_once(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    for name in ("one", "two"):
        new_worker(name, pool="threads", concurrency=2)
    client.push_many([("s", turn) for turn in chat(10)])
    client.checkpoint("s", name="here")
    client.push_many([("s", turn) for turn in chat(10)])
    asked = ask(jobs.ROLLBACK, Namespace(client.namespace), "s", {"to": "here"}, timeout_s=20)

    with Events(store.url) as events:
        server.set(asked.keys.ask, asked.body, px=20_000)
        for _ in range(12):
            send(store.url, jobs.ROLLBACK, client.namespace, "s", asked.id)
        wait_until(lambda: _told(events) == {"answered": 1, "late": 11})

    answers: Any = server.lrange(asked.keys.answer, 0, -1)
    assert [decode_json(each)["answer"]["turns_lost"] for each in answers] == [10]
    assert 0 < int(server.pttl(asked.keys.answer)) <= 60_000
    assert client.info("s").version == 1


@pytest.mark.usefixtures("worker")
def test_errors_cross_over_as_what_they_are(client: ContextClient) -> None:
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
    with pytest.raises(InvalidInput, match="TURNMILL_ARCHIVE_URL=none"):
        client.ground("anything")
    with pytest.raises(InvalidInput, match="TURNMILL_ARCHIVE_URL=none"):
        client.remember("anything")


@pytest.mark.usefixtures("worker")
def test_a_mistyped_template_does_not_keep_a_session_from_its_compactions(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push("s", {"role": "user", "content": "Hello."})

    with pytest.raises(UnknownTemplate):
        client.summarize("s", template="nothing")

    assert not server.exists(keys_of(client, "s").lease)


@pytest.mark.usefixtures("worker")
def test_a_summary_of_a_session_that_is_compacted_says_it_is_busy(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])
    server.set(keys_of(client, "s").lease, "somebody", px=60_000)

    with pytest.raises(SessionBusy, match="'s'"):
        client.summarize("s")


@pytest.mark.usefixtures("worker")
def test_a_summary_waits_for_a_compaction_that_does_not_take_long(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])
    server.set(keys_of(client, "s").lease, "somebody", px=500)

    assert client.summarize("s").turns_summarized > 0


@pytest.mark.usefixtures("worker")
def test_a_worker_that_meets_a_defect_says_so_at_once(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])
    server.set(keys_of(client, "s").context, b"no JSON")
    start = time.monotonic()

    with pytest.raises(CorruptContext, match="stored context") as caught:
        client.summarize("s", timeout_s=20)

    assert "no JSON" not in str(caught.value)
    assert time.monotonic() - start < 10


@pytest.mark.usefixtures("worker")
def test_questions_and_answers_leave_nothing_behind(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push_many([("s", turn) for turn in chat(20)])

    client.trajectory("s")
    client.summarize("s")

    assert question_keys(server, client.namespace, "ask") == []
    assert question_keys(server, client.namespace, "answer") == []


@pytest.mark.usefixtures("worker")
def test_an_answer_nobody_reads_expires(client: ContextClient, server: redis.Redis) -> None:
    client.push_many([("s", turn) for turn in chat(20)])

    client.summarize("s", wait=False)

    wait_until(lambda: client.info("s").version == 1)
    wait_until(lambda: question_keys(server, client.namespace, "answer"))
    [answer] = question_keys(server, client.namespace, "answer")
    assert 0 < int(server.pttl(answer)) <= 60_000


@pytest.mark.usefixtures("worker")
def test_many_agents_ask_at_once_and_each_gets_its_own_answer(client: ContextClient) -> None:
    sessions = {f"s{n}": chat(n + 1, topic=f"parcel of s{n}") for n in range(12)}
    for session, turns in sessions.items():
        push_all(client, session, turns)
    told: dict[str, list[Any]] = {}

    def tell(session: str) -> None:
        told[session] = [turn.messages[0] for turn in client.trajectory(session).turns]

    threads = [threading.Thread(target=tell, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert told == sessions


def test_questions_have_keys_of_their_own(namespace: str) -> None:
    one, two = (ask(jobs.EXPORT, Namespace(namespace), "s", {}, timeout_s=1).id for _ in range(2))

    assert ask_keys(Namespace(namespace), one) != ask_keys(Namespace(namespace), two)
