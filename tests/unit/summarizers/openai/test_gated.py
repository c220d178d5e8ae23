"""Every call asks its gate first, and tells it what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from tests.unit.summarizers.openai.talks import KEY, MODEL, OPENED
from turnmill.testing import FakeEndpoint, Fault
from turnmill_worker.errors import (
    CircuitOpen,
    RateLimited,
    SummarizerMisconfigured,
    SummarizerUnavailable,
)
from turnmill_worker.summarizers.openai.endpoint import (
    GatedEndpoint,
    ModelEndpoint,
    ModelOptions,
    Prompt,
)

PROMPT = Prompt("Be brief.", "word " * 700)
OPTIONS = ModelOptions(model=MODEL, timeout_s=0.5)


class Gate:
    """Lets through what it is not told to refuse, and keeps what it hears."""

    def __init__(self, refusals: Sequence[Exception] = ()) -> None:
        self.refusals = list(refusals)
        self.heard: list[tuple[Any, ...]] = []

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        if self.refusals:
            raise self.refusals.pop(0)
        assert within_s == OPTIONS.timeout_s
        assert 1_000 < tokens < 3_000
        return 7

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        self.heard.append(("answered", round_, estimated, used))

    def failed(self, round_: int | None, error: Exception, *, estimated: int) -> None:
        del estimated
        self.heard.append(("failed", round_, type(error).__name__))


def ask(endpoint: FakeEndpoint, gate: Gate) -> list[float]:
    """Ask once; returns what was waited for."""
    waits: list[float] = []
    asked = ModelEndpoint(api_key=SecretStr(KEY), base_url=endpoint.base_url)
    OPENED.append(asked)
    GatedEndpoint(asked, gate, sleep=waits.append).ask(PROMPT, OPTIONS)
    return waits


def test_an_answer_is_told_with_what_it_was_billed(endpoint: FakeEndpoint) -> None:
    gate = Gate()

    ask(endpoint, gate)

    [(what, round_, _, used)] = gate.heard
    assert (what, round_) == ("answered", 7)
    assert 800 < used < 1_000


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("500", "SummarizerUnavailable"),
        ("timeout", "SummarizerUnavailable"),
        ("reset", "SummarizerUnavailable"),
        ("not-openai", "SummarizerUnavailable"),
        ("429", "RateLimited"),
        ("401", "EndpointRefused"),
        ("403", "EndpointRefused"),
        ("404", "EndpointRefused"),
    ],
)
def test_a_failure_of_the_endpoint_is_told_by_its_kind(
    endpoint: FakeEndpoint, fault: Fault, name: str
) -> None:
    gate = Gate()
    endpoint.fail_next(fault)

    with pytest.raises((SummarizerUnavailable, SummarizerMisconfigured)):
        ask(endpoint, gate)

    assert gate.heard == [("failed", 7, name)]


def test_a_request_that_is_not_to_its_liking_says_nothing_against_the_endpoint(
    endpoint: FakeEndpoint,
) -> None:
    gate = Gate()
    endpoint.fail_next("400")

    with pytest.raises(SummarizerMisconfigured):
        ask(endpoint, gate)

    assert [(what, used) for what, _, _, used in gate.heard] == [("answered", 0)]


def test_a_short_pause_is_waited_for(endpoint: FakeEndpoint) -> None:
    gate = Gate([RateLimited(retry_after_s=0.5), RateLimited(retry_after_s=1.0)])

    assert ask(endpoint, gate) == [0.5, 1.0]


@pytest.mark.parametrize(
    "refusals",
    [
        [CircuitOpen(retry_after_s=0.1)],
        [RateLimited(retry_after_s=2.5)],
        [RateLimited(retry_after_s=1.5), RateLimited(retry_after_s=1.0)],
    ],
)
def test_what_is_not_let_through_is_not_asked(
    endpoint: FakeEndpoint, refusals: list[Exception]
) -> None:
    with pytest.raises(type(refusals[-1])):
        ask(endpoint, Gate(refusals))

    assert endpoint.requests == []
