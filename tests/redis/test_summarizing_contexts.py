"""A summary asked for behind the context as the agent sends it, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from tests.image_parts import png, showing
from tests.properties.stepping import SentHints
from tests.redis.conftest import Worker
from turnmill import ContextClient, InvalidPolicy, Policy
from turnmill.contract.job_outcomes import Compaction
from turnmill.testing import FakeEndpoint
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.settings import Settings
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.summarizers.registry import Registry
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

SYSTEM = "You bring parcels."
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {}}}
CHAT = {"type": "function", "function": TOOL}
RESPONSES = {"type": "function", **TOOL}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
POLICY = Policy(
    max_tokens=2_000,
    strategies=("rolling", "window"),
    summarizer="openai",
    model="gpt-4o-mini",
    summary_on="context",
    quality_threshold=0.0,
)


class Site:
    """An agent, a worker that asks, and a model's endpoint."""

    def __init__(self, client: ContextClient, raw: redis.Redis, worker: Worker) -> None:
        self.client, self._raw = client, raw
        self.ref, self._keys = worker.ref("s"), worker.keys("s")
        self.endpoint = FakeEndpoint()
        self.sent: dict[str, Any] = {}

    def compact(self, **settings: Any) -> dict[str, Any]:
        """Have a context above its limit summarized; what the model was asked first."""
        self.client.open("s", POLICY)
        key = SecretStr("sk-for-tests-only-0123456789")
        known = Settings(model_url=self.endpoint.base_url, model_key=key, **settings)
        summarizers = Registry(known)
        pipeline = Pipeline(
            templates=TemplateLoader(),
            sessions=RedisSessions(self._raw),
            hints=SentHints(),
            counters=counter_for,
            summarizers=summarizers,
        )
        while self.client.info("s").usage.total <= 1_650:
            at = self.client.info("s").last_seq
            text = f"Parcel {at}: Anna wants number {at * 17} brought to street {at * 7} by noon."
            role = "assistant" if at % 2 else "user"
            self.client.push("s", {"role": role, "content": text})
            pipeline.estimate(self.ref)
        self.sent = self.client.read("s").request_for(settings.get("model_api", "chat"))
        assert pipeline.summarize(self.ref).outcome == "committed"
        summarizers.factory("openai").close()
        body: dict[str, Any] = self.endpoint.requests[0].body
        return body

    def records(self) -> list[Compaction]:
        """Of all compactions."""
        entries: Any = self._raw.xrange(self._keys.compactions)
        return [Compaction.parse(fields[b"record"]) for _, fields in entries]


@pytest.fixture
def site(client: ContextClient, redis_client: redis.Redis, worker: Worker) -> Iterator[Site]:
    made = Site(client, redis_client, worker)
    with made.endpoint:
        yield made


def test_the_request_begins_as_what_the_agent_sent(site: Site) -> None:
    site.client.open("s", POLICY, SYSTEM, tools=[CHAT])
    for at in range(2):  # the second time behind a summary
        site.endpoint.requests.clear()
        body = site.compact()

        *before, asked = body["messages"]
        assert before == site.sent["messages"]
        assert body["tools"] == [CHAT]
        assert body["tool_choice"] == "none"
        assert "response_format" not in body
        assert asked["role"] == "user"
        assert "#1 user: Parcel 0: Anna wants" in asked["content"] or at
    record = site.records()[0]
    assert record.model == "gpt-4o-mini"
    assert record.items["kept"] > 0
    assert site.client.info("s").version == 2


def test_it_is_said_in_the_api_that_is_spoken_and_without_calls_under_way(site: Site) -> None:
    site.client.open("s", POLICY, SYSTEM, tools=[RESPONSES])
    site.client.push("s", {"role": "assistant", "content": None, "tool_calls": [CALL]})
    site.client.push("s", {"role": "tool", "tool_call_id": "c1", "content": "seen"})

    body = site.compact(model_api="responses")

    assert body["instructions"] == SYSTEM
    assert body["input"][:-1] == site.sent["input"]
    assert body["tools"] == [RESPONSES]


@pytest.mark.parametrize(
    ("tools", "settings"),
    [
        ([RESPONSES], {}),
        ([CHAT], {"model_window_tokens": 5_000}),
        ([CHAT], {"redactor": "built-in"}),
    ],
)
def test_what_cannot_be_sent_so_is_asked_for_in_the_ordinary_way(
    site: Site, tools: list[dict[str, Any]], settings: dict[str, Any]
) -> None:
    site.client.open("s", POLICY, SYSTEM, tools=tools)

    body = site.compact(**settings)

    assert len(body["messages"]) == 2
    assert "tools" not in body


def test_what_nobody_said_becomes_no_rule(site: Site) -> None:
    site.endpoint = FakeEndpoint(faults={"injected": 1.0})
    with site.endpoint:
        site.compact()

    assert "collector.example" not in str(site.client.read("s").messages)
    assert site.records()[0].items["not-the-users"] >= 1


def test_images_are_not_sent_again(site: Site) -> None:
    site.client.push("s", showing(png()))

    assert len(site.compact()["messages"]) == 2


def test_a_batch_is_not_cached() -> None:
    with pytest.raises(InvalidPolicy, match="no batch is cached"):
        Policy(summarizer="openai", batch=True, summary_on="context")
