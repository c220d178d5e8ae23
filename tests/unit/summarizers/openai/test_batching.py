"""Batches: what is handed in, how the answer is known again, and what all of it costs."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.summarizers.openai.talks import COUNTER, KEY, MODEL, TALK, connected, request
from turnmill.testing import BatchFault, FakeEndpoint, Fault
from turnmill_worker.errors import (
    BatchFailed,
    SummarizerMisconfigured,
    SummarizerUnavailable,
)
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.summarizers.openai.endpoint import Answer
from turnmill_worker.summarizers.openai.prices import load_prices
from turnmill_worker.summarizers.openai.summarizer import OpenAiBatches

# Batches: what is handed in, how the answer is known again, and what is left behind.

WORDS = str(TALK[0]["content"])


def batches(endpoint: FakeEndpoint, **more: Any) -> OpenAiBatches:
    return OpenAiBatches(connected(endpoint, **more).setup)


def submitted(asked: OpenAiBatches) -> AwaitedSummary:
    awaited = asked.submit(request(), COUNTER)
    assert awaited is not None
    return awaited


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_batch_asks_what_a_live_request_asks_and_costs_half(
    endpoint: FakeEndpoint, api: str
) -> None:
    nonce = {"nonce": lambda _: "a" * 12}
    live = connected(endpoint, api=api).__class__.of(
        replace(connected(endpoint, api=api).setup, **nonce)  # type: ignore[arg-type]
    )
    expected = live.summarize(request(), COUNTER)
    asked = OpenAiBatches(live.setup)

    found = asked.poll(submitted(asked))
    assert found is not None
    summary = found.summarize(request(), COUNTER)

    first, upload = endpoint.requests[:2]
    line = json.loads(upload.body["file"])
    only_live = {"stream", "stream_options", "temperature"}
    asked_live = {name: value for name, value in first.body.items() if name not in only_live}
    # Live, it was seen that the model does not reason before the batch was handed in.
    limits = {name for name in line["body"] if name.startswith("max_")}
    assert line["url"] == first.path
    assert {**line["body"], **dict.fromkeys(limits, 0)} == {
        **asked_live,
        **dict.fromkeys(limits, 0),
    }
    assert summary.text == expected.text
    assert (summary.prompt_tokens, summary.model) == (expected.prompt_tokens, MODEL)
    assert summary.cost_usd == pytest.approx((expected.cost_usd or 0) / 2)
    assert expected.cost_usd


def test_an_answer_that_may_not_be_committed_is_followed_by_one_other_prompt(
    endpoint: FakeEndpoint,
) -> None:
    endpoint.fail_next_batches("wrong-language")
    asked = batches(endpoint)
    found = asked.poll(submitted(asked))
    assert found is not None

    summary = found.summarize(request(), COUNTER)

    live = [each for each in endpoint.requests if each.path == "/v1/chat/completions"]
    assert len(live) == 1
    assert "thrown away (none-holds, " in live[0].prompt
    assert "another matter" not in summary.text
    assert "Пользователь" not in summary.text


@pytest.mark.parametrize(
    "fault", ["failed", "expired", "cancelled", "no-output", "garbage", "500", "400"]
)
def test_a_batch_without_an_answer_has_failed(endpoint: FakeEndpoint, fault: BatchFault) -> None:
    endpoint.fail_next_batches(fault)
    asked = batches(endpoint)
    awaited = submitted(asked)

    with pytest.raises(BatchFailed, match=MODEL):
        asked.poll(awaited)


@pytest.mark.parametrize("fault", ["401", "404", "500", "reset", "not-openai"])
def test_an_upload_that_fails_leaves_nothing_behind(endpoint: FakeEndpoint, fault: Fault) -> None:
    asked = batches(endpoint)
    for script in ([fault], ["ok", fault]):
        endpoint.fail_next(*script)

        with pytest.raises((SummarizerMisconfigured, SummarizerUnavailable)) as caught:
            asked.submit(request(), COUNTER)

        assert KEY not in str(caught.value)
        assert WORDS not in str(caught.value)
    # What was stored though the answer broke off, nobody can name: it expires.
    assert len(endpoint.batches.files) == (1 if fault == "reset" else 0)


def test_neither_key_nor_conversation_reach_a_log(
    endpoint: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        asked = batches(endpoint)
        awaited = submitted(asked)
        found = asked.poll(awaited)
        assert found is not None
        text = found.summarize(request(), COUNTER).text
        asked.discard(awaited)

    assert caplog.text
    for secret in (KEY, WORDS, text, text.split("\n")[1]):
        assert secret not in caplog.text
    assert KEY not in awaited.model_dump_json()
    assert WORDS[:20] not in awaited.model_dump_json()


# What tokens cost: the table, the user's file over it, and no guess where neither knows.


def answer(model: str = "gpt-4o", **fields: Any) -> Answer:
    values: dict[str, Any] = {
        "prompt_tokens": 1_000_000,
        "cached_tokens": 400_000,
        "completion_tokens": 100_000,
        "has_usage": True,
        **fields,
    }
    return Answer(text="", finish="stop", refused=False, model=model, **values)


def test_cached_input_is_cheaper() -> None:
    spent = load_prices().spent(answer(), "gpt-4o")

    assert spent.cost_usd == pytest.approx(0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10.0)


def test_an_unknown_model_and_an_answer_without_usage_have_no_cost() -> None:
    assert load_prices().spent(answer("llama"), "llama").cost_usd is None
    assert load_prices().spent(answer(has_usage=False), "gpt-4o").cost_usd is None


def test_a_file_overrides_and_adds(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    own = {"gpt-4o": {"input": 1, "output": 2}, "llama": {"input": 0, "output": 0}}
    file.write_text(json.dumps({"version": "mine", "usd_per_million_tokens": own}))

    prices = load_prices(file)

    assert prices.version.endswith("+mine")
    assert prices.spent(answer(), "gpt-4o").cost_usd == pytest.approx(1.2)
    assert prices.spent(answer("llama"), "llama").cost_usd == 0
    assert prices.of("gpt-4o-mini") is not None
