"""Model calls are shared out: between namespaces evenly, and in each to those with least room."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import Events, chat, send
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import SUMMARIZE
from turnmill.contract.keys import WAITING
from turnmill.testing import FakeEndpoint

pytestmark = pytest.mark.worker

NOISY = 40
KEY = "sk-for-tests-only-0123456789"
ASKING = Policy(
    max_tokens=2_000,
    summarizer="openai",
    model="gpt-4o-mini",
    strategies=("rolling", "window"),
    quality_threshold=0.0,
    recent_turns_to_keep=1,
)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key=KEY, latency_s=0.05) as running:
        yield running


@pytest.fixture
def own(new_server: Callable[..., EmbeddedRedis]) -> EmbeddedRedis:
    """A server where nobody else's sessions wait."""
    return new_server()


Start = Callable[[str], WorkerProcess]


@pytest.fixture
def start(own: EmbeddedRedis, endpoint: FakeEndpoint, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker of some queues."""
    env = {"TURNMILL_MODEL_URL": endpoint.base_url, "TURNMILL_MODEL_KEY": KEY}
    made: list[WorkerProcess] = []

    def run(queues: str) -> WorkerProcess:
        made.append(WorkerProcess(own.url, tmp_path, name=f"w{len(made)}", queues=queues, env=env))
        return made[-1].start()

    yield run
    for worker in made:
        worker.__exit__()


def fill(client: ContextClient, sessions: Sequence[tuple[str, int]]) -> None:
    """Sessions with so many turns, which name their session's number."""
    for at, (session, turns) in enumerate(sessions):
        client.open(session, ASKING)
        said = chat(turns, topic=f"{client.namespace}-{at}-")
        client.push_many((session, message) for message in said)


def wait_for(server: redis.Redis, namespace: str, count: int) -> None:
    """Until so many of its sessions wait for a summary."""
    key = f"{WAITING.waiting}{namespace}"
    wait_until(lambda: server.zcard(key) == count, within_s=60, what=f"{count} in {namespace}")


def asked(endpoint: FakeEndpoint) -> list[str]:
    """Whose conversations the model was shown, in order, each once."""
    shown = [re.search(r"(\w+-\d+)- \d+:", each.prompt) for each in list(endpoint.requests)]
    return list(dict.fromkeys(found[1] for found in shown if found))


def test_a_quiet_namespace_does_not_wait_for_a_noisy_one(
    own: EmbeddedRedis, start: Start, endpoint: FakeEndpoint
) -> None:
    with (
        redis.Redis.from_url(own.url) as server,
        ContextClient(own.url, namespace="noisy") as noisy,
        ContextClient(own.url, namespace="quiet") as quiet,
    ):
        start("estimate,compact")
        fill(noisy, [(f"n{at}", 60) for at in range(NOISY)])
        wait_for(server, "noisy", NOISY)
        fill(quiet, [(f"q{at}", 60) for at in range(3)])
        wait_for(server, "quiet", 3)

        start("summarize")
        wait_until(lambda: all(quiet.info(f"q{at}").version for at in range(3)))

        done = sum(noisy.info(f"n{at}").version > 0 for at in range(NOISY))
        first = asked(endpoint)[:7]
        assert sum(name.startswith("quiet") for name in first) == 3
        assert done < NOISY / 4


def test_the_session_closest_to_its_hard_limit_comes_first(
    own: EmbeddedRedis, start: Start, endpoint: FakeEndpoint
) -> None:
    with (
        redis.Redis.from_url(own.url) as server,
        ContextClient(own.url, namespace="one") as client,
        Events(own.url) as events,
    ):
        start("estimate,compact")
        turns = [60, 76, 64, 72, 56, 68]
        fill(client, [(f"s{at}", number) for at, number in enumerate(turns)])
        wait_for(server, "one", len(turns))
        wait_until(lambda: (wait := client.info("s0").wait) and wait.on == "turn")

        start("summarize")
        wait_until(lambda: all(client.info(f"s{at}").version for at in range(len(turns))))

        assert asked(endpoint) == [f"one-{at}" for at in (1, 3, 5, 2, 0, 4)]
        assert events.results("s1")


def test_a_message_that_came_twice_or_names_nobody_is_used_up(
    own: EmbeddedRedis, start: Start
) -> None:
    with (
        redis.Redis.from_url(own.url) as server,
        ContextClient(own.url, namespace="one") as client,
        Events(own.url) as events,
    ):
        start("estimate,compact")
        fill(client, [("s0", 60)])
        wait_for(server, "one", 1)
        send(own.url, SUMMARIZE, "another", "nobody")

        start("summarize")
        wait_until(lambda: client.info("s0").version)
        wait_until(lambda: "unknown" in events.outcomes("nobody") or len(events.results()) > 3)

        wait_until(lambda: server.llen("summarize") == 0)
        assert server.exists(WAITING.order) == 0


def test_sessions_whose_messages_were_lost_are_hinted_again(
    own: EmbeddedRedis, start: Start
) -> None:
    with (
        redis.Redis.from_url(own.url) as server,
        ContextClient(own.url, namespace="one") as client,
    ):
        start("estimate,compact")
        fill(client, [(f"s{at}", 60) for at in range(4)])
        wait_for(server, "one", 4)
        server.delete("summarize")

        start("summarize")

        wait_until(lambda: all(client.info(f"s{at}").version for at in range(4)))
