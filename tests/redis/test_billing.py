"""What compactions saved and cost, as a namespace's client sums it up."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis

from tests.redis.conftest import CLIENTS, Surface, Worker
from turnmill import AsyncContextClient, Bill, ContextClient, CorruptContext, InvalidInput, Policy


@pytest.fixture(params=CLIENTS)
def kind(request: pytest.FixtureRequest) -> type[ContextClient | AsyncContextClient]:
    """Both clients: their replies are parsed in two ways."""
    kind: type[ContextClient | AsyncContextClient] = request.param
    return kind


def compacted(client: Surface, worker: Worker, session: str) -> int:
    """How many tokens a compaction of the session saved."""
    client.open(session, Policy(max_tokens=1_000))
    for at in range(60):
        text = f"Parcel {at}: Anna wants number {at * 17} brought to street {at * 7} by noon."
        client.push(session, {"role": "assistant" if at % 2 else "user", "content": text})
    worker.pipeline.estimate(worker.ref(session))
    done = worker.pipeline.summarize(worker.ref(session))
    assert done.tokens_before
    assert done.tokens_after
    return done.tokens_before - done.tokens_after


def billed(raw: redis.Redis, worker: Worker, session: str, **record: Any) -> None:
    """Add a compaction that a model was billed for, of forty days ago."""
    at_ms = int((time.time() - 40 * 86_400) * 1000)
    fields = {"session": session, "tokens_before": 900, "tokens_after": 500, **record}
    key = worker.keys(session).compactions
    raw.xadd(key, {"record": json.dumps(fields)}, id=f"{at_ms}-{raw.xlen(key)}")


def test_compactions_are_summed_up_by_what_is_asked_for(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    asked = {"model": "m", "prompt_tokens": 300, "completion_tokens": 40}
    billed(redis_client, worker, "a", **asked, cost_usd=0.25)
    billed(redis_client, worker, "a", **asked, failed=["RateLimited"])
    billed(redis_client, worker, "b", strategy="erase", tokens_after=906)
    saved = [compacted(either, worker, session) for session in ("a", "b")]

    by_session = either.usage("session")
    old, today = either.usage()
    [total] = either.usage("")
    models = [(bill.model, bill.compactions) for bill in either.usage("model, day")]

    assert [bill.session for bill in by_session] == ["a", "b"]
    assert [bill.tokens_saved for bill in by_session] == [800 + saved[0], saved[1]]
    assert (old.prompt_tokens, old.completion_tokens) == (600, 80)
    assert (old.cost_usd, old.unpriced) == (0.25, 1)
    assert (today.day, today.compactions) == (time.strftime("%Y-%m-%d", time.gmtime()), 2)
    assert total == old.model_copy(
        update={"day": None, "compactions": 4, "tokens_saved": 800 + sum(saved)}
    )
    assert models == [("extractive", 2), ("m", 2)]


def test_a_namespace_without_compactions_is_billed_nothing(either: Surface) -> None:
    either.push("s", {"role": "user", "content": "Hello."})

    assert either.usage() == []
    assert either.usage("") == [
        Bill(
            compactions=0,
            tokens_saved=0,
            prompt_tokens=0,
            completion_tokens=0,
            cost_usd=0,
            unpriced=0,
        )
    ]


def test_what_cannot_be_summed_up_by_is_named_with_what_can(either: Surface) -> None:
    with pytest.raises(InvalidInput, match="no weather, but namespace, day, session, model"):
        either.usage("day,weather")


@pytest.mark.parametrize("record", ["no JSON", "7", '{"tokens_before": "many"}'])
def test_a_record_that_is_none_is_told_without_its_content(
    either: Surface, worker: Worker, redis_client: redis.Redis, record: str
) -> None:
    either.push("s", {"role": "user", "content": "Hello."})
    redis_client.xadd(worker.keys("s").compactions, {"record": record})

    with pytest.raises(CorruptContext) as raised:
        either.usage()

    assert record not in str(raised.value)
