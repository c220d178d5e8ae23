"""A model's gate: when it opens and closes, what it lets through, and that all workers share it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import redis

from turnmill.contract.keys import ENDPOINTS, endpoint_hash, endpoint_keys
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.errors import CircuitOpen, RateLimited, SummarizerFailed, SummarizerUnavailable
from turnmill_worker.ports.protocols import place_of
from turnmill_worker.store.model_gates import RedisGate

URL = "https://user:hunter2@models.example:8443/v1/?key=hunter3"
DOWN = SummarizerUnavailable("down")
SHUT = SummarizerFailed("no such key")
BUSY = RateLimited("429")


class Gate:
    """Two workers' gates before one model, and a hand on the time they see."""

    def __init__(self, client: redis.Redis, **limits: Any) -> None:
        self.client: Any = client
        model = f"m-{uuid.uuid4().hex}"
        self.one, self.other = (RedisGate(client, URL, model, **limits) for _ in range(2))
        self.hash = endpoint_hash(place_of(URL), model)
        self.key = endpoint_keys(self.hash).gate

    def call(self, error: Any = None, *, tokens: int = 100, used: int = 100) -> None:
        round_ = self.one.admit(tokens=tokens, within_s=60)
        if error is None:
            self.one.answered(round_, estimated=tokens, used=used)
        else:
            self.one.failed(round_, error, estimated=tokens)

    def wait_s(self, kind: type[SummarizerUnavailable] = CircuitOpen) -> float:
        """How long the other worker is told to wait."""
        with pytest.raises(kind) as refused:
            self.other.admit(tokens=100, within_s=60)
        assert type(refused.value) is kind
        assert refused.value.retry_after_s is not None
        return refused.value.retry_after_s

    def pass_time(self, seconds: float) -> None:
        """As if so much time had passed."""
        for field in ("open_until", "probe_until", "blocked_until", "filled_at"):
            value = self.client.hget(self.key, field)
            if value is not None:
                self.client.hset(self.key, field, int(float(value) - seconds * 1000))

    def fields(self) -> dict[str, str]:
        found = self.client.hgetall(self.key)
        return {name.decode(): value.decode() for name, value in found.items()}


@pytest.fixture
def gate(redis_client: redis.Redis) -> Gate:
    return Gate(redis_client)


@pytest.fixture
def limited(redis_client: redis.Redis) -> Callable[..., Gate]:
    return lambda **limits: Gate(redis_client, **limits)


def opened(gate: Gate) -> None:
    for _ in range(5):
        gate.call(DOWN)


# The breaker


def test_five_failures_in_a_row_open_it_for_everybody(gate: Gate) -> None:
    for _ in range(4):
        gate.call(DOWN)
    gate.call()
    opened(gate)

    assert gate.wait_s() == pytest.approx(30, abs=1)


def test_a_success_between_failures_starts_the_row_anew(gate: Gate) -> None:
    for error in [DOWN, DOWN, DOWN, DOWN, None, DOWN, DOWN, DOWN, DOWN]:
        gate.call(error)

    gate.call()


def test_after_its_time_one_call_at_a_time_tries_the_endpoint(gate: Gate) -> None:
    opened(gate)
    gate.pass_time(31)

    gate.one.admit(tokens=100, within_s=60)

    assert 60 < gate.wait_s() <= 65


def test_a_probe_that_succeeds_closes_it(gate: Gate) -> None:
    opened(gate)
    gate.pass_time(31)

    gate.call()

    gate.other.admit(tokens=100, within_s=60)
    gate.other.admit(tokens=100, within_s=60)


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_five_minutes(gate: Gate) -> None:
    opened(gate)
    waits = []
    for _ in range(5):
        gate.pass_time(400)
        gate.call(DOWN)
        waits.append(round(gate.wait_s()))

    assert waits == [60, 120, 240, 300, 300]


def test_the_right_of_a_probe_whose_worker_died_expires(gate: Gate) -> None:
    opened(gate)
    gate.pass_time(31)
    died = gate.one.admit(tokens=100, within_s=60)
    gate.pass_time(66)

    probe = gate.other.admit(tokens=100, within_s=60)

    gate.one.failed(died, DOWN, estimated=100)  # not dead after all, and too late to count
    gate.other.answered(probe, estimated=100, used=100)
    gate.one.admit(tokens=100, within_s=60)


def test_calls_under_way_when_it_opened_neither_close_nor_reopen_it(gate: Gate) -> None:
    rounds = [gate.one.admit(tokens=100, within_s=60) for _ in range(12)]
    for round_ in rounds[:8]:
        gate.one.failed(round_, DOWN, estimated=100)
    for round_ in rounds[8:]:
        gate.one.answered(round_, estimated=100, used=100)

    assert gate.wait_s() == pytest.approx(30, abs=1)
    assert gate.fields()["openings"] == "1"


def test_whoever_lets_nobody_in_is_soon_left_alone_for_a_minute(gate: Gate) -> None:
    gate.call(SHUT)
    gate.call(SHUT)
    gate.call(SHUT)

    assert gate.wait_s() == pytest.approx(60, abs=1)
    gate.pass_time(61)
    gate.call(SHUT)
    assert gate.wait_s() == pytest.approx(60, abs=1)


def test_refusals_with_an_answer_between_them_are_hiccups(gate: Gate) -> None:
    for _ in range(2):
        gate.call(SHUT)
        gate.call(SHUT)
        gate.call()

    gate.one.admit(tokens=1, within_s=60)


# Pauses


def test_everybody_waits_as_long_as_a_429_asks(gate: Gate) -> None:
    gate.call(RateLimited("429", retry_after_s=12.5))

    assert gate.wait_s(RateLimited) == pytest.approx(12.5, abs=1)


def test_a_429_that_asks_for_no_time_makes_a_pause_all_the_same(gate: Gate) -> None:
    gate.call(RateLimited("429", retry_after_s=0.0))

    assert gate.wait_s(RateLimited) == pytest.approx(1, abs=0.5)


def test_everybody_waits_as_long_as_a_503_asks_and_it_counts_as_a_failure(gate: Gate) -> None:
    gate.call(SummarizerUnavailable("503", retry_after_s=7))

    assert gate.wait_s(RateLimited) == pytest.approx(7, abs=1)
    assert gate.fields()["failures"] == "1"


def test_nobody_is_held_up_for_longer_than_five_minutes(gate: Gate) -> None:
    gate.call(RateLimited("429", retry_after_s=86_400))

    assert gate.wait_s(RateLimited) == pytest.approx(300, abs=1)


def test_without_a_time_the_pause_doubles_while_429s_go_on(gate: Gate) -> None:
    waits = []
    for _ in range(8):
        gate.call(BUSY)
        waits.append(round(gate.wait_s(RateLimited)))
        gate.pass_time(61)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    gate.call()
    gate.call(BUSY)
    assert gate.wait_s(RateLimited) <= 1


def test_429s_to_calls_that_were_under_way_together_make_one_pause(gate: Gate) -> None:
    rounds = [gate.one.admit(tokens=100, within_s=60) for _ in range(10)]
    for round_ in rounds:
        gate.one.failed(round_, BUSY, estimated=100)

    assert gate.wait_s(RateLimited) <= 1


def test_a_429_to_a_probe_shows_that_the_endpoint_lives(gate: Gate) -> None:
    opened(gate)
    gate.pass_time(31)

    gate.call(BUSY)

    assert gate.wait_s(RateLimited) <= 1
    gate.pass_time(2)
    gate.call()


# Budgets


def granted(gate: Gate, *, tokens: int = 100, step_s: float = 0.5) -> int:
    """Calls let through in a minute, asked for in small steps; what a step takes is part of it."""
    done, passed, begun = 0, 0.0, time.monotonic()
    while passed + time.monotonic() - begun < 60 - step_s:
        try:
            gate.one.admit(tokens=tokens, within_s=60)
            done += 1
        except RateLimited:
            gate.pass_time(step_s)
            passed += step_s
    return done


@pytest.mark.parametrize("limit", [1, 6, 60, 300])
def test_no_minute_has_more_requests_than_the_limit(
    limited: Callable[..., Gate], limit: int
) -> None:
    gate = limited(requests_per_minute=limit)

    first, second = granted(gate, step_s=0.25), granted(gate, step_s=0.25)

    assert 0.8 * limit <= first <= limit + 1
    assert second <= limit + 1


def test_no_minute_has_more_tokens_than_the_limit(limited: Callable[..., Gate]) -> None:
    gate = limited(tokens_per_minute=60_000)

    assert 0.8 * 60 <= granted(gate, tokens=1_000) <= 61


def test_the_time_told_is_the_time_it_takes(limited: Callable[..., Gate]) -> None:
    gate = limited(requests_per_minute=30)
    for _ in range(5):
        gate.call()
    wait = gate.wait_s(RateLimited)

    gate.pass_time(wait)

    gate.call()


def test_what_was_billed_replaces_what_was_expected(limited: Callable[..., Gate]) -> None:
    gate = limited(tokens_per_minute=6_000)

    for _ in range(20):
        gate.call(tokens=900, used=1)
    gate.call(tokens=900, used=5_000)

    assert gate.wait_s(RateLimited) > 30
    assert gate.fields()["tokens"] == "5020"
    assert gate.fields()["requests"] == "21"


def test_a_call_larger_than_the_budget_is_made_once_it_is_full(
    limited: Callable[..., Gate],
) -> None:
    gate = limited(tokens_per_minute=6_000)

    gate.call(tokens=20_000, used=20_000)

    assert gate.wait_s(RateLimited) > 200


def test_a_failed_call_gives_its_tokens_back(limited: Callable[..., Gate]) -> None:
    gate = limited(tokens_per_minute=6_000)

    for _ in range(4):
        gate.call(DOWN, tokens=900)

    assert gate.fields()["tokens"] == "0"
    gate.call(tokens=900)


# What is stored


def test_it_tells_where_and_what_without_secrets_and_expires(
    gate: Gate, redis_client: redis.Redis
) -> None:
    gate.call(SHUT)

    fields = gate.fields()
    assert fields["place"] == "models.example:8443/v1"
    assert fields["error"] == "SummarizerFailed"
    assert "hunter" not in str(fields) + gate.key
    assert redis_client.pttl(gate.key) > 0
    assert redis_client.zscore(ENDPOINTS, gate.hash) is not None


def test_two_models_at_one_endpoint_have_a_gate_each(gate: Gate, redis_client: redis.Redis) -> None:
    opened(gate)

    RedisGate(redis_client, URL, "another").admit(tokens=1, within_s=60)


# Without Redis


def test_while_redis_cannot_be_asked_everything_is_let_through(own_server: EmbeddedRedis) -> None:
    with redis.Redis.from_url(own_server.url, socket_timeout=0.2) as client:
        gate = Gate(client, requests_per_minute=1)
        under_way = gate.one.admit(tokens=100, within_s=60)
        own_server.stop()

        gate.one.failed(under_way, DOWN, estimated=100)
        for error in (None, DOWN, SHUT, BUSY):
            gate.call(error)

        assert gate.one.admit(tokens=1, within_s=60) is None
        assert gate.other.admit(tokens=1, within_s=60) is None


def test_a_gate_redis_forgot_meanwhile_starts_anew(gate: Gate) -> None:
    round_ = gate.one.admit(tokens=100, within_s=60)
    gate.client.delete(gate.key)

    gate.one.failed(round_, DOWN, estimated=100)
    gate.one.answered(round_, estimated=100, used=1)

    assert gate.fields() == {}
