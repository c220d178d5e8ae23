"""Whose summary is committed, where several summarizers wrote one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import redis

from tests.redis.conftest import Worker
from tests.worker.harness import chat
from turnmill import ContextClient, Policy
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

ROLLING = Policy(max_tokens=2_000, strategies=("rolling", "window"), quality_threshold=0.0)


class Terse:
    """Writes as the extractive summarizer does, in a share of the tokens."""

    def __init__(self, share: float) -> None:
        self.share = share

    def summarize(self, request: Any, counter: Any) -> Summary:
        less = replace(request, budget_tokens=int(request.budget_tokens * self.share))
        return Summary(text=ExtractiveSummarizer().summarize(less, counter).text, model="terse")


class Boilerplate:
    """Says nothing, fluently."""

    def summarize(self, request: Any, counter: Any) -> Summary:
        del request, counter
        return Summary(text="The conversation went on, and much was said.", model="boilerplate")


def committed(
    client: ContextClient, worker: Worker, server: redis.Redis, session: str, *models: Summarizer
) -> dict[str, Any]:
    """Compact a session by these summarizers, the extractive one last; what was recorded."""
    pipeline = Pipeline(
        templates=TemplateLoader(),
        sessions=worker.sessions,
        hints=worker.hints,
        counters=counter_for,
        summarizers=lambda _policy: [*models, ExtractiveSummarizer()],
    )
    client.push_many([(session, message) for message in chat(60)])
    pipeline.estimate(worker.ref(session))
    assert pipeline.summarize(worker.ref(session)).outcome == "committed"
    entries: Any = server.xrevrange(worker.keys(session).compactions)
    found: dict[str, Any] = json.loads(entries[0][1][b"record"])
    return found


def test_a_terse_summary_is_taken_where_the_wordy_one_is_good_enough(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    # Passages beside a terse text would make up for what it leaves out.
    alone = ROLLING.model_copy(update={"ledger_ratio": 0.0})
    client.open("wordy", alone)
    wordy = committed(client, worker, redis_client, "wordy")["quality"]
    client.open("s", alone.model_copy(update={"quality_threshold": wordy - 0.01}))

    record = committed(client, worker, redis_client, "s", Terse(0.6))

    assert record["model"] == "terse"
    assert "failed" not in record
    assert 0.75 * wordy <= record["quality"] < wordy - 0.01


def test_one_that_says_nothing_is_not(
    client: ContextClient, worker: Worker, redis_client: redis.Redis
) -> None:
    client.open("s", ROLLING.model_copy(update={"quality_threshold": 0.5, "ledger_ratio": 0.0}))

    record = committed(client, worker, redis_client, "s", Boilerplate())

    assert record["model"] == "extractive"
    assert record["failed"] == ["below-quality"]
