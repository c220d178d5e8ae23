"""Batches: what is handed in, how the answer is known again, and what is left behind."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.summarizers.openai.talks import COUNTER, KEY, MODEL, TALK, connected, request, user
from turnmill.testing import BatchFault, FakeEndpoint, Fault
from turnmill_worker.compaction.plan import Records
from turnmill_worker.errors import (
    BatchFailed,
    SummarizerMisconfigured,
    SummarizerUnavailable,
    UnusableSummary,
)
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.summarizers.openai.prices import Price, Prices, load_prices
from turnmill_worker.summarizers.openai.summarizer import BatchedAnswer, OpenAiBatches

WORDS = str(TALK[0]["content"])


def batches(endpoint: FakeEndpoint, **more: Any) -> OpenAiBatches:
    return OpenAiBatches(connected(endpoint, **more).setup)


def submitted(asked: OpenAiBatches) -> AwaitedSummary:
    awaited = asked.submit(request(), COUNTER)
    assert awaited is not None
    return awaited


def paths(endpoint: FakeEndpoint) -> list[str]:
    return [f"{each.method} {each.path}" for each in endpoint.requests]


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
    assert (line["url"], line["body"]) == (first.path, first.body)
    assert summary.text == expected.text
    assert (summary.prompt_tokens, summary.model) == (expected.prompt_tokens, MODEL)
    assert summary.cost_usd == pytest.approx((expected.cost_usd or 0) / 2)
    assert expected.cost_usd


def test_a_price_table_can_say_what_a_batch_costs(endpoint: FakeEndpoint) -> None:
    dear = Prices("test", {MODEL: Price(input=1.0, output=1.0, batch_share=1.0)})
    asked = batches(endpoint, prices=dear)

    found = asked.poll(submitted(asked))
    assert found is not None
    summary = found.summarize(request(), COUNTER)

    tokens = summary.prompt_tokens + summary.completion_tokens
    assert summary.cost_usd == pytest.approx(tokens / 1e6)
    price = load_prices().of(MODEL)
    assert price is not None
    assert price.batch_share == 0.5


def test_a_batch_under_way_has_no_answer_yet(endpoint: FakeEndpoint) -> None:
    endpoint.batches.takes_s = 3600.0
    asked = batches(endpoint)
    awaited = submitted(asked)

    assert asked.poll(awaited) is None
    endpoint.batches.takes_s = 0.0

    assert asked.poll(awaited) is not None


def test_files_expire_by_themselves(endpoint: FakeEndpoint) -> None:
    submitted(batches(endpoint))

    upload, create = endpoint.requests
    assert upload.body["purpose"] == "batch"
    assert upload.body["expires_after[seconds]"] == "172800"
    assert create.body["output_expires_after"] == {"anchor": "created_at", "seconds": 172800}


def test_a_conversation_of_several_prompts_is_not_handed_in(endpoint: FakeEndpoint) -> None:
    asked = batches(endpoint, window_tokens=8192)

    long = [{"role": "user", "content": f"Parcel {n}: {WORDS} {'la ' * 900}"} for n in range(12)]

    assert asked.submit(request(*long), COUNTER) is None
    assert endpoint.requests == []


def test_nothing_to_summarize_is_not_handed_in(endpoint: FakeEndpoint) -> None:
    empty = replace(request(), records=Records())

    with pytest.raises(UnusableSummary):
        batches(endpoint).submit(empty, COUNTER)


def test_an_answer_that_may_not_be_committed_is_followed_by_one_other_prompt(
    endpoint: FakeEndpoint,
) -> None:
    endpoint.fail_next_batches("injected")
    asked = batches(endpoint)
    found = asked.poll(submitted(asked))
    assert found is not None

    summary = found.summarize(request(), COUNTER)

    live = [each for each in endpoint.requests if each.path == "/v1/chat/completions"]
    assert len(live) == 1
    assert "demands the user never made" in live[0].prompt
    assert "collector" not in summary.text


def test_two_bad_answers_are_rejected(endpoint: FakeEndpoint) -> None:
    endpoint.fail_next_batches("refusal")
    asked = batches(endpoint)
    found = asked.poll(submitted(asked))
    assert found is not None
    endpoint.fail_next("empty")

    with pytest.raises(UnusableSummary) as caught:
        found.summarize(request(), COUNTER)

    assert caught.value.kinds == ("refused", "empty")
    assert caught.value.spent.calls == 2


def test_another_request_is_asked_live(endpoint: FakeEndpoint) -> None:
    asked = batches(endpoint)
    found = asked.poll(submitted(asked))
    assert found is not None
    other = request(*TALK, user("And one more thing."))

    found.summarize(other, COUNTER)

    assert endpoint.requests[-1].path == "/v1/chat/completions"


def test_an_answer_that_repeats_its_own_marks_is_not_committed(endpoint: FakeEndpoint) -> None:
    asked = batches(endpoint)
    awaited = submitted(asked)
    found = asked.poll(awaited)
    assert found is not None
    leaking = replace(found._answer, text=f"{found._answer.text}\n- {awaited.nonce}")

    text = BatchedAnswer(asked._setup, awaited, leaking).summarize(request(), COUNTER).text

    assert endpoint.requests[-1].path == "/v1/chat/completions"
    assert awaited.nonce not in text


@pytest.mark.parametrize(
    "fault", ["failed", "expired", "cancelled", "no-output", "garbage", "500", "400"]
)
def test_a_batch_without_an_answer_has_failed(endpoint: FakeEndpoint, fault: BatchFault) -> None:
    endpoint.fail_next_batches(fault)
    asked = batches(endpoint)
    awaited = submitted(asked)

    with pytest.raises(BatchFailed, match=MODEL):
        asked.poll(awaited)


@pytest.mark.parametrize("fault", ["429", "500", "reset", "malformed", "not-openai"])
def test_an_endpoint_that_cannot_be_asked_now_may_be_asked_again(
    endpoint: FakeEndpoint, fault: Fault
) -> None:
    asked = batches(endpoint)
    awaited = submitted(asked)

    endpoint.fail_next(fault)
    with pytest.raises(SummarizerUnavailable):
        asked.poll(awaited)
    endpoint.fail_next("ok", fault)
    # Another shape is none of the file's business: it is text, and read as lines.
    error = BatchFailed if fault in ("malformed", "not-openai") else SummarizerUnavailable
    with pytest.raises(error):
        asked.poll(awaited)

    assert asked.poll(awaited) is not None


def test_a_batch_nobody_knows_is_not_waited_for(endpoint: FakeEndpoint) -> None:
    asked = batches(endpoint)
    awaited = submitted(asked).model_copy(update={"batch": "batch_none"})

    with pytest.raises(SummarizerMisconfigured, match="404"):
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


def test_a_batch_that_is_not_wanted_is_cancelled_and_its_files_deleted(
    endpoint: FakeEndpoint,
) -> None:
    endpoint.batches.takes_s = 3600.0
    asked = batches(endpoint)
    awaited = submitted(asked)

    asked.discard(awaited)

    assert endpoint.batches.statuses == ["cancelled"]
    assert endpoint.batches.files == {}
    assert f"POST /v1/batches/{awaited.batch}/cancel" in paths(endpoint)


def test_a_batch_that_is_done_loses_its_files_only(endpoint: FakeEndpoint) -> None:
    asked = batches(endpoint)
    awaited = submitted(asked)
    asked.poll(awaited)
    assert len(endpoint.batches.files) == 2

    asked.discard(awaited)
    asked.discard(awaited)

    assert endpoint.batches.files == {}
    assert not any("cancel" in path for path in paths(endpoint))


@pytest.mark.parametrize("fault", ["401", "500", "reset", "malformed"])
def test_a_failing_clean_up_is_no_error(endpoint: FakeEndpoint, fault: Fault) -> None:
    asked = batches(endpoint)
    awaited = submitted(asked)
    endpoint.fail_next(*[fault] * 9)

    asked.discard(awaited)

    assert endpoint.requests


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
