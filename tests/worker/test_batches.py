"""Summaries awaited from batches: half the price, and no session is worse off for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import KEY, PATIENT, Events, NewServer, NewWorker, keys_of, stored
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.testing import FakeEndpoint

pytestmark = pytest.mark.worker

Message = dict[str, object]


@pytest.fixture
def store(new_server: NewServer) -> EmbeddedRedis:
    """One per test: a session left awaiting would be looked for at the next one's endpoint."""
    return new_server()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key=KEY, batch_s=3600.0) as running:
        yield running


@pytest.fixture
def start(new_worker: NewWorker, endpoint: FakeEndpoint) -> NewWorker:
    """Start a worker that looks for its batches every 100 ms."""

    def started(name: str = "patient", **more: str) -> WorkerProcess:
        env = {
            "TURNMILL_MODEL_URL": endpoint.base_url,
            "TURNMILL_MODEL_KEY": KEY,
            "TURNMILL_BATCH_FIRST_LOOK_S": "0.1",
            "TURNMILL_BATCH_LONGEST_PAUSE_S": "0.1",
            "TURNMILL_SWEEP_INTERVAL_S": "0.1",
            "TURNMILL_STALE_AFTER_S": "0.1",
            "TURNMILL_LEASE_S": "2",
            **more,
        }
        return new_worker(name, env=env)

    return started


class Talk:
    """What was said in a session, a message a turn, each of some 50 tokens."""

    def __init__(self, client: ContextClient, session: str) -> None:
        self.pushed: list[Message] = []
        self._client = client
        self._session = session

    def go_on(self, turns: int) -> None:
        fresh: list[Message] = [
            {
                "role": "assistant" if at % 2 else "user",
                "content": f"Parcel {at}: Anna in Bern wants number {at * 17} brought to street "
                f"{at * 7} on day {at % 28 + 1}, never to the shop in room {at % 9}, said #W{at}.",
            }
            for at in range(len(self.pushed), len(self.pushed) + turns)
        ]
        self.pushed += fresh
        self._client.push_many((self._session, message) for message in fresh)

    def until(self, tokens: int) -> None:
        """Push until the session has so many tokens, counted."""
        while self._client.info(self._session).usage.total <= tokens:
            self.go_on(2)
            wait_until(self._counted, what="counted")

    def _counted(self) -> bool:
        info = self._client.info(self._session)
        return info.counted_seq == info.last_seq


def awaiting(server: redis.Redis, client: ContextClient, session: str) -> bool:
    return bool(server.exists(keys_of(client, session).batch))


def handed_in(server: redis.Redis, client: ContextClient, session: str = "s") -> Talk:
    """A session whose summary is awaited."""
    client.open(session, PATIENT)
    talk = Talk(client, session)
    talk.until(PATIENT.limits(0).soft)
    wait_until(lambda: awaiting(server, client, session), what="a batch handed in")
    return talk


def live(endpoint: FakeEndpoint) -> int:
    return sum(each.path == "/v1/chat/completions" for each in endpoint.requests)


def version(client: ContextClient) -> int:
    return client.info("s").version


def test_a_batch_writes_the_summary_while_the_agent_goes_on(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    endpoint: FakeEndpoint,
    start: NewWorker,
) -> None:
    with Events(store.url) as events:
        worker = start(TURNMILL_ARCHIVE_URL="none")
        talk = handed_in(server, client)
        before = len(talk.pushed)
        talk.go_on(4)
        wait_until(lambda: events.outcomes("s").count("batched") > 2, what="looked for")
        assert version(client) == 0
        wait_until(lambda: (wait := client.info("s").wait) and wait.on == "batch")

        endpoint.batches.takes_s = 0.0
        wait_until(lambda: version(client) == 1, what="committed")
        wait_until(lambda: not awaiting(server, client, "s"), what="cleaned up")

    record = client.trajectory("s").compactions[0].record
    assert live(endpoint) == 0
    assert (record.model, record.strategy) == ("gpt-4o-mini", "rolling")
    whole = (record.prompt_tokens * 0.15 + record.completion_tokens * 0.6) / 1e6
    assert record.cost_usd == pytest.approx(whole / 2)
    context = client.read("s")
    assert "## Goal" in context.summary
    assert [m["content"] for m in context.messages[-4:]] == [
        each["content"] for each in talk.pushed[before:]
    ]
    assert record.last_seq == before
    stored(server, client, "s").assert_conserved(talk.pushed)
    assert endpoint.batches.files == {}
    assert len(endpoint.batches.statuses) == 1
    assert KEY not in worker.output()
    assert "Anna" not in worker.output()
    assert events.failures() == []


def test_the_batch_of_a_killed_worker_is_fetched_by_another(
    client: ContextClient, server: redis.Redis, endpoint: FakeEndpoint, start: NewWorker
) -> None:
    doomed = start("doomed", TURNMILL_ARCHIVE_URL="none")
    talk = handed_in(server, client)
    doomed.kill()
    talk.go_on(3)

    endpoint.batches.takes_s = 0.0
    start("heir", TURNMILL_ARCHIVE_URL="none")
    wait_until(lambda: version(client) == 1, what="committed", within_s=30)

    assert live(endpoint) == 0
    assert len(endpoint.batches.statuses) == 1
    stored(server, client, "s").assert_conserved(talk.pushed)
