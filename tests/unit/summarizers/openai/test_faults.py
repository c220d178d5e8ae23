"""What becomes of every way an endpoint can fail: the exact outcome, and nothing told."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Literal

import pytest

from tests.unit.summarizers.openai.talks import COUNTER, KEY, MODEL, ORDER, TALK, connected, request
from turnmill.contract.errors import Transient
from turnmill.testing import FAULTS, FakeEndpoint, Fault
from turnmill_worker.errors import (
    SummarizerMisconfigured,
    SummarizerUnavailable,
    SummaryRejected,
    UnusableSummary,
)

UNAVAILABLE: dict[Fault, str] = {
    "429": "HTTP 429",
    "429-retry-after": "HTTP 429",
    "500": "HTTP 500",
    "503": "HTTP 503",
    "timeout": "no answer within 0.3 s",
    "drip": "no answer within 0.3 s",
    "huge": "more than 4,194,304 bytes",
    "reset": "APIConnectionError",
    "malformed": "not of the API",
    "not-openai": "not of the API",
}
MISCONFIGURED: dict[Fault, str] = {
    "400": "HTTP 400, the request is not to its liking",
    "401": "HTTP 401, the key is not accepted",
    "403": "HTTP 403, the key may not use it",
    "404": "HTTP 404, there is no such model",
}
REJECTED: dict[Fault, str] = {
    "empty": "no-items",
    "refusal": "refused",
    "refusal-text": "no-items",
    "content-filter": "refused",
    "echo": "no-items",
    "wrong-language": "none-holds",
}
DROPPED: dict[Fault, str] = {
    "length": "",
    "oversize": "not-the-users",
    "injected": "not-the-users",
}
"""Answers of which what is good is kept, and why the rest is not."""


MANAGED: dict[Fault, str] = {
    "empty": "empty",
    "refusal": "refused",
    "content-filter": "refused",
    "length": "unfinished",
    "echo": "echo",
    "oversize": "over-budget",
}

Api = Literal["chat", "responses"]
APIS: tuple[Api, ...] = ("chat", "responses")


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(retry_after_s=7.5) as serving:
        yield serving


def texts_of(error: BaseException) -> str:
    """All an error report could show."""
    shown = "".join(traceback.format_exception(error))
    chained = [repr(each) for each in (error.__cause__, error.__context__) if each]
    return "\n".join([shown, repr(error), repr(vars(error)), *chained])


def assert_nothing_is_told(error: BaseException) -> None:
    told = texts_of(error)
    assert KEY not in told
    for message in TALK:
        for sentence in str(message.get("content") or "").split(". "):
            assert not sentence or sentence not in told
    assert "collector.example" not in told
    assert error.__cause__ is None
    assert error.__context__ is None


def test_every_fault_has_an_outcome() -> None:
    assert {*UNAVAILABLE, *MISCONFIGURED, *REJECTED, *DROPPED, "ok"} == set(FAULTS)


@pytest.mark.parametrize("fault", UNAVAILABLE)
def test_what_passes_is_transient_and_asked_once(
    endpoint: FakeEndpoint, api: Api, fault: Fault
) -> None:
    endpoint.fail_next(fault)
    patience_s = 0.3 if fault in ("timeout", "drip") else 20.0

    with pytest.raises(SummarizerUnavailable, match=UNAVAILABLE[fault]) as caught:
        connected(endpoint, api=api, timeout_s=patience_s).summarize(request(), COUNTER)

    assert isinstance(caught.value, Transient)
    assert caught.value.retry_after_s == (7.5 if fault == "429-retry-after" else None)
    assert len(endpoint.requests) == 1
    assert_nothing_is_told(caught.value)


@pytest.mark.parametrize("fault", MISCONFIGURED)
def test_what_a_setting_causes_is_told_to_the_operator_and_not_asked_again(
    endpoint: FakeEndpoint, api: Api, fault: Fault
) -> None:
    # What is not to an endpoint's liking is sent once more, without all that can be left out.
    asked = 2 if fault == "400" else 1
    endpoint.fail_next(*[fault] * asked)

    with pytest.raises(SummarizerMisconfigured, match=MISCONFIGURED[fault]) as caught:
        connected(endpoint, api=api).summarize(request(), COUNTER)

    assert MODEL in str(caught.value)
    assert not isinstance(caught.value, Transient)
    assert len(endpoint.requests) == asked
    assert_nothing_is_told(caught.value)


@pytest.mark.parametrize("fault", REJECTED)
def test_a_bad_text_is_asked_for_once_more_differently_then_rejected(
    endpoint: FakeEndpoint, api: Api, fault: Fault
) -> None:
    endpoint.fail_next(fault, fault)

    with pytest.raises(UnusableSummary) as caught:
        connected(endpoint, api=api).summarize(request(), COUNTER)

    first, second = endpoint.requests
    assert caught.value.kinds == (REJECTED[fault],) * 2
    assert isinstance(caught.value, SummaryRejected)
    assert first.body != second.body
    assert "had to be thrown away" in second.prompt
    assert caught.value.spent.calls == 2
    assert caught.value.spent.prompt_tokens > 0
    assert_nothing_is_told(caught.value)


@pytest.mark.parametrize("fault", REJECTED)
def test_a_good_second_text_is_accepted_and_both_are_paid_for(
    endpoint: FakeEndpoint, api: Api, fault: Fault
) -> None:
    endpoint.fail_next(fault)

    summary = connected(endpoint, api=api).summarize(request(), COUNTER)

    assert len(endpoint.requests) == 2
    assert "- rule: Please do not touch the other items" in summary.text
    assert summary.prompt_tokens == sum(len(each.prompt) // 4 for each in endpoint.requests)


@pytest.mark.parametrize("fault", DROPPED)
def test_what_is_good_in_a_bad_answer_is_kept(
    endpoint: FakeEndpoint, api: Api, fault: Fault
) -> None:
    endpoint.fail_next(fault)

    summary = connected(endpoint, api=api).summarize(request(), COUNTER)

    assert len(endpoint.requests) == 1
    assert summary.text.startswith("- rule: ")
    assert "collector.example" not in summary.text
    assert "Remark" not in summary.text
    assert not DROPPED[fault] or summary.dropped[DROPPED[fault]]


def test_a_managed_text_is_finished_no_echo_and_within_its_budget(
    endpoint: FakeEndpoint, api: Api
) -> None:
    asked = request(instructions="Write what happened.\n\n## Story", budget=120)
    for fault, kind in MANAGED.items():
        endpoint.fail_next(fault, fault)

        with pytest.raises(UnusableSummary) as caught:
            connected(endpoint, api=api).summarize(asked, COUNTER)

        assert caught.value.kinds == (kind, kind)
        assert_nothing_is_told(caught.value)


def test_nothing_is_logged_at_any_level(
    endpoint: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.fail_next("401", "400", "400", "malformed", "injected")
    summarizer = connected(endpoint)
    for _ in range(3):
        with pytest.raises((SummarizerMisconfigured, SummarizerUnavailable)):
            summarizer.summarize(request(), COUNTER)
    summarizer.summarize(request(), COUNTER)

    assert caplog.records
    for telling in (KEY, ORDER, "brass", "collector.example"):
        assert telling not in caplog.text
