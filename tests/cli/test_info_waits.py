"""What `turnmill info` says of a session that is due and is not compacted yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from tests.cli.commands import Ran
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.contract.keys import NAMESPACES, RESTING
from turnmill.testing import FakeEndpoint
from turnmill_worker.errors import RateLimited
from turnmill_worker.pipeline.batch import Batches
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.protocols import BatchEndpoint, Summarizer
from turnmill_worker.settings import Settings
from turnmill_worker.store.summaries import RedisBatchNotes
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.registry import RegisteredBatches, Registry
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

ASKING = Policy(
    max_tokens=2_000,
    soft_ratio=0.5,
    target_ratio=0.3,
    summarizer="openai",
    strategies=("rolling", "window"),
    quality_threshold=0.0,
    batch=True,
)


class Busy:
    """A model that has too much to do."""

    def summarize(self, request: Any, counter: Any) -> Any:
        del request, counter
        raise RateLimited("429", retry_after_s=60)


class Session:
    """A session over its soft limit, a worker's jobs on it, and what is said of it."""

    def __init__(
        self, client: ContextClient, server: redis.Redis, turnmill: Callable[..., Ran]
    ) -> None:
        self.client = client
        self._server = server
        self._turnmill = turnmill
        self.worker = Worker(server, client.namespace)
        client.open("s", ASKING)
        client.push_many(
            [("s", {"role": "user", "content": f"word {at} " * 25}) for at in range(14)]
        )
        self.worker.pipeline.estimate(self.worker.ref("s"))
        usage, limits = client.info("s").usage, client.info("s").limits
        assert limits.soft < usage.total <= (limits.soft + limits.urgent) // 2

    def pipeline(self, *models: Summarizer, batches: BatchEndpoint | None = None) -> Pipeline:
        return Pipeline(
            templates=TemplateLoader(),
            sessions=self.worker.sessions,
            hints=self.worker.hints,
            counters=counter_for,
            summarizers=lambda _policy: [*models, ExtractiveSummarizer()],
            batches=Batches(RedisBatchNotes(self._server), batches) if batches else None,
            chance=lambda: 0.0,
        )

    def wake(self) -> None:
        """As if its time had come."""
        self._server.zadd(self.worker.keys("s").due, {"s": 1})

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A worker has its lease."""
        with self.worker.sessions.lease(self.worker.ref("s")) as lease:
            assert lease is not None
            yield
            lease.retry(after_s=0)

    @property
    def state(self) -> str:
        """The line of `turnmill info`, on a terminal of 200 columns."""
        lines = self._turnmill("info", "s").stdout.splitlines()
        return next(line for line in lines if line.startswith("state")).split(None, 1)[1].strip()

    @property
    def wait(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._turnmill("info", "s", "--json").json["wait"]
        return found


@pytest.fixture
def session(
    client: ContextClient, redis_client: redis.Redis, turnmill: Callable[..., Ran]
) -> Session:
    return Session(client, redis_client, turnmill)


def test_a_session_that_waits_for_nothing_says_so(session: Session) -> None:
    assert session.state == "compaction due"
    assert session.wait is None


def test_a_session_handed_on_waits_for_its_turn_from_then_on(session: Session) -> None:
    session.pipeline().compact(session.worker.ref("s"))

    assert session.state.startswith("waits for its turn in the queue summarize; has waited ")
    first = session.client.info("s").wait
    session.wake()
    session.pipeline().compact(session.worker.ref("s"))  # handed on again by the sweep
    second = session.client.info("s").wait
    assert first is not None
    assert second is not None
    assert second.on == "turn"
    assert (second.for_s or 0.0) > (first.for_s or 0.0)


def test_whoever_is_handed_on_to_nobody_is_due_since_the_first_time(
    session: Session, redis_client: redis.Redis, turnmill: Callable[..., Ran]
) -> None:
    def due_age_s() -> float:
        return float(turnmill("top", "--once", "--json").json["due_age_s"])

    redis_client.delete(NAMESPACES, RESTING)  # no others
    redis_client.sadd(NAMESPACES, session.client.namespace)
    session.pipeline().compact(session.worker.ref("s"))
    redis_client.hincrby(session.worker.keys("s").meta, "waits_at", -60_000)
    session.wake()
    session.pipeline().compact(session.worker.ref("s"))  # handed on again by the sweep

    assert 60 <= due_age_s() < 120
    with session.at_work():
        assert due_age_s() < 60


def test_a_session_left_over_its_soft_limit_says_until_when(session: Session) -> None:
    session.client.open("s", ASKING.model_copy(update={"quality_threshold": 1.0}))
    session.pipeline().estimate(session.worker.ref("s"))
    done = session.pipeline().summarize(session.worker.ref("s"))

    assert done.outcome == "below-quality"
    assert session.state == (
        "over its soft limit: nothing tried was good enough; more turns try again"
    )


def test_what_was_put_off_is_over_its_soft_limit_wherever_one_looks(
    session: Session, redis_client: redis.Redis, turnmill: Callable[..., Ran]
) -> None:
    redis_client.delete(NAMESPACES, RESTING)  # no others
    redis_client.sadd(NAMESPACES, session.client.namespace)
    session.client.push("fine", {"role": "user", "content": "few words"})
    before = turnmill("top", "--once", "--json").json["sessions"]

    session.client.open("s", ASKING.model_copy(update={"quality_threshold": 1.0}))
    session.pipeline().estimate(session.worker.ref("s"))
    assert session.pipeline().summarize(session.worker.ref("s")).outcome == "below-quality"

    found = turnmill("sessions", "--over-soft", "--json").json
    after = turnmill("top", "--once", "--json").json["sessions"]
    assert [row["session"] for row in found] == ["s"]
    assert before["over_soft"] == after["over_soft"] == 1
    assert (before["due"] + before["later"]) - (after["due"] + after["later"]) == 1


def test_a_session_whose_model_fails_says_why_and_until_when(session: Session) -> None:
    session.pipeline(Busy()).summarize(session.worker.ref("s"))

    assert re.fullmatch(
        r"deferred \(RateLimited, try 1 of 3\), tried again in (60|59|58) s; has waited \d s",
        session.state,
    )
    wait = session.wait
    assert wait is not None
    assert wait.pop("for_s") >= 0
    assert wait == {"on": "model", "failed": ["RateLimited"], "tries": 1}


def test_a_session_that_awaits_a_batch_says_when_it_is_looked_for(session: Session) -> None:
    with FakeEndpoint(key="sk-for-tests-only", batch_s=3600.0) as endpoint:
        key = SecretStr("sk-for-tests-only")
        settings = Settings(model_url=endpoint.base_url, model_key=key)
        registry = Registry(settings)
        pipeline = session.pipeline(batches=RegisteredBatches(registry))
        pipeline.summarize(session.worker.ref("s"))
        registry.factory("openai").close()

    assert session.state.startswith("waits for a batch with its summary, next look in ")
    session.wake()
    pipeline.compact(session.worker.ref("s"))  # a job that only hands the look on
    assert re.match(r"waits for a batch with its summary, next look in [1-5] s", session.state)


def test_a_session_that_is_being_compacted_says_so(session: Session) -> None:
    with session.at_work():
        assert session.state == "a worker is compacting it"
        assert session.wait == {"on": "worker", "for_s": None, "failed": [], "tries": 0}

    assert session.wait is None
