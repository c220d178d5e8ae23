"""Every way a model endpoint can fail, against a real worker: nothing bad is ever committed.

One worker for all of them. Each fault has a session, and a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import KEY, Events, JsonMessage, asks, chat, settled
from turnmill import Context, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import violations
from turnmill.testing import FakeEndpoint, Fault
from turnmill.testing.model import INJECTED, write
from turnmill_worker.tokens import counter_for

pytestmark = pytest.mark.worker


PASSES = ("SummarizerUnavailable",)
LIMITED = ("RateLimited",)
NEEDS_A_SETTING = ("SummarizerMisconfigured",)
REFUSED = ("EndpointRefused",)
OPEN = ["CircuitOpen"]
REFUSES = ("UnusableSummary: refused",)
OUTWEIGHED = ("UnusableSummary: outweighed",)
UNFINISHED = ("UnusableSummary: unfinished",)
NONE_HOLDS = ("UnusableSummary: none-holds",)

OUTCOMES: dict[Fault, tuple[str, tuple[str, ...] | None, int]] = {
    "ok": ("the model", None, 1),
    "400": ("extractive", NEEDS_A_SETTING, 2),
    "401": ("extractive", REFUSED, 1),
    "429": ("extractive", LIMITED, 1),
    "timeout": ("extractive", PASSES, 1),
    "reset": ("extractive", PASSES, 1),
    "malformed": ("extractive", PASSES, 1),
    "refusal": ("extractive", REFUSES, 2),
    "echo": ("extractive", UNFINISHED, 2),
    "wrong-language": ("extractive", NONE_HOLDS, 2),
    "injected": ("the model", None, 1),
}
"""By fault: who wrote what was committed, the ``failed`` of the first outcome, calls it took.

A later compaction may find the model's circuit open, and take no call.
"""

TELLING = (
    INJECTED,
    "I'm sorry",
    "Пользователь",
    "repeats what was said before",
    "no end",
    "a proxy has something",
    "chatcmpl",
    "refused a request",
    "<<",
)
"""What is in no conversation here, but in answers nobody should use."""

COUNT = counter_for().count_messages


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key=KEY, retry_after_s=0.1, hang_s=20) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def worker(
    store: EmbeddedRedis, endpoint: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    env = asks(endpoint)
    with WorkerProcess(store.url, tmp_path_factory.mktemp("faults"), env=env) as running:
        yield running


@pytest.fixture(scope="module")
def events(store: EmbeddedRedis) -> Iterator[Events]:
    with Events(store.url) as running:
        yield running


def policy(fault: Fault) -> Policy:
    return Policy(
        max_tokens=2_000,
        summarizer="openai",
        # A model's failures are remembered by its name: what befalls one must not touch another.
        model=f"model-{fault}",
        model_timeout_s=1,
        model_attempts=0,
        strategies=("rolling", "window"),
        quality_threshold=0.0,
    )


class Agent:
    """Pushes a conversation and reads after every turn, as agents do; keeps what it read."""

    def __init__(self, client: ContextClient, fault: Fault) -> None:
        self.session = fault
        self.model = policy(fault).model
        self.contexts: list[Context] = []
        self._client = client
        self._pushed = 0
        client.open(self.session, policy(fault))

    def say(self, messages: Sequence[JsonMessage]) -> None:
        for message in messages:
            self._client.push(self.session, message)
            self._pushed += 1
            self.read()

    def read(self) -> None:
        self.contexts.append(self._client.read(self.session))

    def settle(self) -> None:
        def done() -> bool:
            self.read()
            return settled(self._client, self.session, turns=self._pushed)

        wait_until(done, what=f"{self.session}: settled")

    def records(self) -> list[Compaction]:
        return [each.record for each in self._client.trajectory(self.session).compactions]


def assert_contexts_are_valid(contexts: Sequence[Context]) -> None:
    for context in contexts:
        assert violations(context.messages) == []
        assert COUNT(context.messages) <= context.tokens <= 2_000


def assert_nothing_bad_is_in(contexts: Sequence[Context], bad: Sequence[str]) -> None:
    for context in contexts:
        text = "\n".join(str(message["content"]) for message in context.messages)
        assert [words for words in (*TELLING, *bad) if words in text] == []


def bad_texts(endpoint: FakeEndpoint, model: str) -> list[str]:
    """What the endpoint answered for this model, other than well."""
    replies = [
        write(asked.body, asked.prompt, asked.fault)
        for asked in endpoint.requests
        if asked.body["model"] == model and asked.fault != "ok"
    ]
    return [words for reply in replies for words in (reply.text, reply.refusal) if words]


@pytest.mark.parametrize("fault", OUTCOMES)
def test_nothing_bad_is_committed_and_the_model_is_back_when_its_endpoint_is(
    client: ContextClient, server: redis.Redis, endpoint: FakeEndpoint, events: Events, fault: Fault
) -> None:
    writer, failed, calls = OUTCOMES[fault]
    agent = Agent(client, fault)
    endpoint.fail_next(*[fault] * 100)

    agent.say(chat(52))
    agent.settle()

    during = agent.records()
    assert during[0].failed == (failed or ())
    wrote = {record.model for record in during}
    assert agent.model in wrote if writer == "the model" else wrote == {"extractive"}
    asked = [each for each in endpoint.requests if each.body["model"] == agent.model]
    assert calls <= len(asked) <= calls * len(during)
    assert {each.fault for each in asked} == {fault}

    endpoint.recover()
    for gate in server.scan_iter("turnmill:{endpoint/*"):  # a minute later
        server.delete(gate)
    agent.say(chat(40, topic="errand"))
    agent.settle()

    after = agent.records()[len(during) :]
    assert any(each.model == agent.model or each.failed == OUTWEIGHED for each in after)
    assert_contexts_are_valid(agent.contexts)
    assert_nothing_bad_is_in(agent.contexts, bad_texts(endpoint, agent.model))
    told = [one.get("failed") for one in _commits(events, fault, len(during) + len(after))]
    wanted = list(failed) if failed else None
    assert told[0] == wanted
    assert all(each in (wanted, OPEN) for each in told[: len(during)])
    assert told[len(during)] in (None, list(OUTWEIGHED))


def _commits(events: Events, session: str, at_least: int) -> list[dict[str, object]]:
    def found() -> list[dict[str, object]]:
        return [one for one in events.results(session) if one["outcome"] == "committed"]

    wait_until(lambda: len(found()) >= at_least, what="events of the commits")
    return found()
