"""A session whose models or jobs fail waits, goes down the ladder or is parked; nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import (
    ArchiveUnavailable,
    ContextClient,
    Policy,
    StoreUnavailable,
    Transient,
)
from turnmill.contract import jobs
from turnmill.contract.job_outcomes import Outcome
from turnmill_worker import tasks
from turnmill_worker.errors import (
    CircuitOpen,
    RateLimited,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryRejected,
    UnusableSummary,
)
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

# --- A session whose models fail waits for them while it has room, and not a moment longer.


LONG = {"role": "user", "content": "word " * 60}


ASKING = Policy(
    max_tokens=2_000,
    summarizer="openai",
    strategies=("rolling", "window"),
    quality_threshold=0.0,
)


DOWN = SummarizerUnavailable("down")
PAID = Spent(calls=1, prompt_tokens=100, completion_tokens=20, cost_usd=0.5)


class Model:
    """A summarizer that fails as it is told, and writes when there is nothing more to fail with."""

    def __init__(self, *errors: Exception, meanwhile: Callable[[], object] = bool) -> None:
        self.errors = list(errors)
        self.meanwhile = meanwhile
        self.asked = 0

    def summarize(self, request: Any, counter: Any) -> Summary:
        self.asked += 1
        self.meanwhile()
        if self.errors:
            raise self.errors.pop(0)
        text = ExtractiveSummarizer().summarize(request, counter).text
        return Summary(
            text=text, model="m", prompt_tokens=1_000, completion_tokens=200, cost_usd=2.0
        )


def failing(error: Exception, spent: Spent = PAID) -> Model:
    error.spent = spent  # type: ignore[attr-defined]
    return Model(*[error] * 9)


Summarize = Callable[..., Outcome]


@pytest.fixture
def summarize(worker: Worker) -> Summarize:
    """Runs the job over these models, and the extractive summarizer after them."""

    def run(*models: Model, chance: float = 0.0) -> Outcome:
        ladder: list[Summarizer] = [*models, ExtractiveSummarizer()]
        pipeline = Pipeline(
            templates=TemplateLoader(),
            sessions=worker.sessions,
            hints=worker.hints,
            counters=counter_for,
            summarizers=lambda _policy: ladder,
            chance=lambda: chance,
        )
        return pipeline.summarize(worker.ref("s"))

    return run


@pytest.fixture
def over_soft(client: ContextClient, worker: Worker) -> str:
    """A session over its soft limit that has room left."""
    client.open("s", ASKING)
    client.push_many([("s", LONG)] * 26)
    worker.pipeline.estimate(worker.ref("s"))
    info = client.info("s")
    assert info.limits.soft < info.usage.total <= info.limits.urgent
    return "s"


def push_until_urgent(client: ContextClient, worker: Worker) -> None:
    client.push_many([("s", LONG)] * 3)
    worker.pipeline.estimate(worker.ref("s"))
    info = client.info("s")
    assert info.limits.urgent < info.usage.total


def clock(client: ContextClient, worker: Worker) -> Callable[[], None]:
    """What an agent does with each step whose system prompt tells the time."""
    hours = iter(range(100))

    def step() -> None:
        client.open("s", None, f"It is {next(hours)} o'clock.")
        worker.pipeline.estimate(worker.ref("s"))

    return step


def wake(redis_client: redis.Redis, worker: Worker) -> None:
    """As if its pause were over."""
    redis_client.zadd(worker.keys("s").due, {"s": 1})


def records(client: Any, worker: Worker) -> list[dict[str, Any]]:
    """The session's compactions as they are recorded."""
    return [
        json.loads(fields[b"record"]) for _, fields in client.xrange(worker.keys("s").compactions)
    ]


@pytest.mark.usefixtures("over_soft")
@pytest.mark.parametrize(
    "error",
    [DOWN, RateLimited("429"), Transient("another")],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_that_passes_is_waited_for(
    summarize: Summarize, client: ContextClient, error: Exception
) -> None:
    outcome = summarize(Model(error))

    assert (outcome.outcome, outcome.failed, outcome.retry_s) == (
        "deferred",
        (type(error).__name__,),
        5.0,
    )
    assert client.info("s").version == 0
    assert client.info("s").due_in_s == pytest.approx(5, abs=1)


@pytest.mark.usefixtures("over_soft")
def test_each_pause_is_longer_and_after_three_the_extractive_summarizer_stands_in(
    summarize: Summarize, redis_client: redis.Redis, worker: Worker
) -> None:
    model, outcomes = failing(DOWN), []
    for _ in range(4):
        outcomes.append(summarize(model))
        wake(redis_client, worker)

    assert [o.retry_s for o in outcomes] == [5.0, 10.0, 20.0, None]
    assert outcomes[-1].outcome == "committed"
    assert outcomes[-1].failed == ("SummarizerUnavailable",)
    assert records(redis_client, worker)[0]["failed"] == ["SummarizerUnavailable"]
    assert redis_client.hmget(worker.keys("s").meta, "model_failures", "deferred", "spent") == [
        None,
        None,
        None,
    ]


@pytest.mark.usefixtures("over_soft")
def test_the_endpoints_own_wish_is_honoured_of_two_the_sooner(summarize: Summarize) -> None:
    late, soon = (RateLimited("429", retry_after_s=wait) for wait in (90, 40))

    outcome = summarize(Model(late), Model(soon))

    assert outcome.retry_s == 40
    assert outcome.failed == ("RateLimited", "RateLimited")


@pytest.mark.usefixtures("over_soft")
@pytest.mark.parametrize("wish_s", [86_400.0, 1e306])
def test_an_endpoint_does_not_keep_sessions_waiting_for_longer_than_the_longest_pause(
    summarize: Summarize, wish_s: float
) -> None:
    outcome = summarize(Model(RateLimited("429", retry_after_s=wish_s)))

    assert (outcome.outcome, outcome.retry_s) == ("deferred", 300.0)


@pytest.mark.usefixtures("over_soft")
@pytest.mark.parametrize(
    "models",
    [
        [Model(CircuitOpen("open", retry_after_s=20))],
        [Model(SummarizerFailed("no key"))],
        [Model(SummaryRejected("no good"))],
        [Model(DOWN), Model(SummarizerFailed("no key"))],
        [Model(DOWN), Model(SummaryRejected("no good"))],
    ],
    ids=["open", "misconfigured", "rejected", "one-misconfigured", "one-rejected"],
)
def test_what_waiting_does_not_help_is_not_waited_for(
    summarize: Summarize, models: Sequence[Model]
) -> None:
    assert summarize(*models).outcome == "committed"


@pytest.mark.usefixtures("over_soft")
def test_a_session_without_room_waits_for_nothing(
    summarize: Summarize, client: ContextClient, worker: Worker
) -> None:
    push_until_urgent(client, worker)

    assert summarize(Model(DOWN)).outcome == "committed"


# What comes meanwhile


@pytest.mark.usefixtures("over_soft")
def test_turns_that_come_while_it_waits_do_not_end_its_pause(
    summarize: Summarize, client: ContextClient, worker: Worker
) -> None:
    summarize(Model(DOWN))
    worker.hints.sent.clear()

    client.push("s", LONG)
    worker.pipeline.estimate(worker.ref("s"))

    due_in_s = client.info("s").due_in_s
    assert due_in_s is not None
    assert due_in_s > 3
    assert worker.hints.sent == []


@pytest.mark.usefixtures("over_soft")
def test_a_session_that_becomes_urgent_while_it_waits_is_due_at_once(
    summarize: Summarize, client: ContextClient, worker: Worker
) -> None:
    summarize(Model(DOWN))
    worker.hints.sent.clear()

    push_until_urgent(client, worker)

    due_in_s = client.info("s").due_in_s
    assert due_in_s is not None
    assert due_in_s <= 0
    assert worker.hints.waiting(jobs.COMPACT) == 1
    assert summarize(Model(DOWN)).outcome == "committed"


# Costs


@pytest.mark.usefixtures("over_soft")
def test_what_failed_tries_cost_is_recorded_with_the_next_commit(
    summarize: Summarize, redis_client: redis.Redis, worker: Worker
) -> None:
    for _ in range(2):
        summarize(failing(DOWN), failing(RateLimited()))
        wake(redis_client, worker)
    summarize(failing(SummaryRejected()), Model())

    [record] = records(redis_client, worker)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (1_500, 300)
    assert record["cost_usd"] == 4.5


@pytest.mark.usefixtures("over_soft")
def test_what_a_refused_model_cost_is_billed_to_it_and_not_to_what_wrote_in_its_place(
    summarize: Summarize, client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    summarize(failing(DOWN, PAID.of("slow")), failing(RateLimited(), PAID.of("dear")))
    wake(redis_client, worker)
    summarize(failing(SummaryRejected(), PAID.of("dear")))

    bills = {bill.model: bill for bill in client.usage("model")}
    dear, slow, wrote = (bills[name] for name in ("dear", "slow", "extractive"))
    assert (dear.prompt_tokens, dear.completion_tokens, dear.cost_usd) == (200, 40, 1.0)
    assert (slow.prompt_tokens, slow.compactions, slow.tokens_saved) == (100, 0, 0)
    assert (wrote.prompt_tokens, wrote.cost_usd, wrote.compactions) == (0, 0.0, 1)
    [whole] = client.usage("")
    assert (whole.prompt_tokens, whole.cost_usd, whole.compactions) == (300, 1.5, 1)
    assert whole.tokens_saved == wrote.tokens_saved > 0


@pytest.mark.usefixtures("over_soft")
def test_a_model_that_was_refused_is_recorded_when_the_window_commits(
    summarize: Summarize,
    redis_client: redis.Redis,
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> Summary:
        raise SummaryRejected("no good")

    monkeypatch.setattr(ExtractiveSummarizer, "summarize", refused)
    poor = UnusableSummary("poor", kinds=("no-items", "none-holds"), items={"loop": 2})

    outcome = summarize(failing(poor))

    assert (outcome.outcome, outcome.strategy) == ("committed", "window")
    assert outcome.failed == ("UnusableSummary: no-items, none-holds",)
    assert outcome.items == {"loop": 2}
    [record] = records(redis_client, worker)
    assert record["failed"] == ["UnusableSummary: no-items, none-holds"]
    assert (record["items"], record["prompt_tokens"]) == ({"loop": 2}, 100)


# Nothing is asked over and over


@pytest.mark.usefixtures("over_soft")
def test_a_prompt_that_changes_with_every_step_does_not_keep_a_summary_from_being_written(
    summarize: Summarize, client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    model = Model(meanwhile=clock(client, worker))
    outcomes: list[str] = []
    while "committed" not in outcomes and len(outcomes) < 20:
        outcomes.append(summarize(model).outcome)

    assert outcomes == ["stale"] * 3 + ["committed"]
    assert model.asked == 3
    assert records(redis_client, worker)[0]["failed"] == ["stale"]


@pytest.mark.usefixtures("over_soft")
def test_what_every_rung_refused_is_not_asked_again_for_turns_that_came_meanwhile(
    summarize: Summarize, client: ContextClient, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Summary:
        raise SummaryRejected("no good")

    monkeypatch.setattr(ExtractiveSummarizer, "summarize", refused)
    client.open("s", ASKING.model_copy(update={"strategies": ("rolling",)}))
    worker.pipeline.estimate(worker.ref("s"))

    def step() -> None:
        client.push("s", {"role": "user", "content": "Go on."})
        worker.pipeline.estimate(worker.ref("s"))

    paid = SummaryRejected("no good")
    paid.spent = PAID
    assert summarize(Model(*[paid] * 9, meanwhile=step)).outcome == "no-plan"

    assert client.info("s").due_in_s is None
    push_until_urgent(client, worker)
    due_in_s = client.info("s").due_in_s
    assert due_in_s is not None
    assert due_in_s <= 0


# --- A session whose compactions keep failing is set aside, stays readable, and is tried by hand.


SMALL = Policy(max_tokens=512, park_after=3)


@pytest.fixture
def full(client: ContextClient, worker: Worker) -> str:
    """A session over its soft limit whose turns were counted."""
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    worker.pipeline.estimate(worker.ref("s"))
    return "s"


@pytest.fixture
def parked(worker: Worker, full: str) -> str:
    """The same after three failures."""
    for _ in range(3):
        worker.pipeline.failed(worker.ref(full), "KeyError")
    worker.hints.sent.clear()
    return full


def test_a_session_of_an_unreadable_policy_is_parked_after_five(
    redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    redis_client.hset(worker.keys(full).meta, "policy", '{"park_after": "moon"}')

    done = [worker.pipeline.failed(worker.ref(full), "KeyError").parked for _ in range(5)]

    assert done == [False] * 4 + [True]


def test_it_is_pushed_to_counted_and_read_but_not_compacted(
    client: ContextClient, worker: Worker, parked: str
) -> None:
    client.push(parked, {"role": "user", "content": "the newest"})
    worker.pipeline.estimate(worker.ref(parked))

    assert client.info(parked).counted_seq == 13
    assert client.read(parked).messages[-1]["content"] == "the newest"
    assert client.info(parked).due_in_s is None
    assert worker.hints.sent == []
    for job in (worker.pipeline.compact, worker.pipeline.summarize):
        assert job(worker.ref(parked)).outcome == "parked"


@pytest.mark.parametrize(
    ("task", "error", "times"),
    [
        (jobs.COMPACT, KeyError(), 1),
        (jobs.SUMMARIZE, Transient(), 1),
        (jobs.ESTIMATE, KeyError(), 0),
        (jobs.FORCE, KeyError(), 0),
        (jobs.COMPACT, StoreUnavailable(), 0),
        (jobs.SUMMARIZE, ArchiveUnavailable(), 0),
    ],
    ids=["compact", "summarize", "count", "asked for", "no store", "no archive"],
)
def test_what_counts_is_a_compaction_that_fails_and_no_outage(
    client: ContextClient, worker: Worker, full: str, task: str, error: Exception, times: int
) -> None:
    parts: Any = SimpleNamespace(pipeline=worker.pipeline)

    tasks._count_failure(task, parts, worker.ref(full), error)

    assert client.info(full).failures == times


def test_a_job_that_fails_gives_its_lease_up(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    with pytest.raises(ZeroDivisionError), worker.sessions.lease(worker.ref(full)):
        raise ZeroDivisionError

    assert redis_client.exists(worker.keys(full).lease) == 0
    assert client.info(full).due_in_s == pytest.approx(5, abs=1)
