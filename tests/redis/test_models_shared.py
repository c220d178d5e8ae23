"""What all workers share of a model's endpoint: its gate, its limits, and who is next."""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from tests.processes import wait_until
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.keys import ENDPOINTS, endpoint_hash, endpoint_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.testing import FakeEndpoint
from turnmill_worker.errors import CircuitOpen, RateLimited, SummarizerFailed, SummarizerUnavailable
from turnmill_worker.ports.protocols import place_of
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store import model_gates
from turnmill_worker.store.model_gates import RedisGate
from turnmill_worker.store.summaries import RedisWaiting
from turnmill_worker.summarizers.openai.endpoint import (
    GatedEndpoint,
    ModelEndpoint,
    ModelOptions,
    Prompt,
)

# --- A model's gate: when it opens and closes, what it lets through, and that all workers share it.


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


SLOW = SummarizerUnavailable("no answer within 60 s", is_slow=True)


def test_a_slow_model_is_not_taken_for_a_dead_one_until_nobody_is_answered(gate: Gate) -> None:
    for _ in range(14):
        gate.call(SLOW)
    gate.call()
    for _ in range(14):
        gate.call(SLOW)
    gate.other.admit(tokens=100, within_s=60)
    gate.call(SLOW)

    assert gate.wait_s() == pytest.approx(30, abs=1)


def test_slow_answers_and_failures_count_together(gate: Gate) -> None:
    for error in (SLOW, SLOW, SLOW, DOWN, DOWN, DOWN):
        gate.call(error)
    gate.other.admit(tokens=100, within_s=60)
    gate.call(DOWN)

    assert gate.wait_s() == pytest.approx(30, abs=1)
    gate.pass_time(31)
    gate.call(SLOW)  # a probe
    assert gate.wait_s() == pytest.approx(60, abs=1)


# Places


def test_no_more_calls_are_under_way_than_there_are_places_whatever_models_they_ask(
    limited: Callable[..., Gate],
) -> None:
    first, second = limited(most_at_once=2), limited(most_at_once=2)

    with first.one.place(within_s=60), second.other.place(within_s=60):
        for each in (first, second):
            with pytest.raises(RateLimited) as refused, each.one.place(within_s=60):
                pass
            assert refused.value.retry_after_s == 0.5
    with first.one.place(within_s=60), first.other.place(within_s=60):
        pass


def test_who_finds_no_place_soon_is_told_to_come_again(limited: Callable[..., Gate]) -> None:
    gate = limited(most_at_once=2)
    options = ModelOptions(model="m", timeout_s=10)

    def ask(_: int) -> str:
        try:
            return asked.ask(Prompt("Be brief.", "Anna likes tea."), options).finish
        except RateLimited:
            return "later"

    with (
        FakeEndpoint(latency_s=1.5) as endpoint,
        ModelEndpoint(api_key=SecretStr("k"), base_url=endpoint.base_url) as model,
        ThreadPoolExecutor(8) as threads,
    ):
        asked = GatedEndpoint(model, gate.one)
        found = Counter(threads.map(ask, range(8)))

    assert endpoint.peak == 2
    assert set(found) == {"stop", "later"}
    assert found["stop"] >= 2


def test_a_killed_workers_place_is_free_in_time_and_a_kept_one_is_not(
    limited: Callable[..., Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_gates, "PROBE_MARGIN_MS", 100)
    gate = limited(most_at_once=1)
    died = gate.one.place(within_s=0.3)
    died.__enter__()

    def taken() -> bool:
        with suppress(RateLimited), gate.other.place(within_s=0.3) as keep:
            begun = time.monotonic()
            while time.monotonic() - begun < 1:
                keep()
                with pytest.raises(RateLimited), gate.one.place(within_s=0.3):
                    pass
            return True
        return False

    assert not taken()
    wait_until(taken, within_s=5)


# Pauses


def test_everybody_waits_as_long_as_a_429_asks(gate: Gate) -> None:
    gate.call(RateLimited("429", retry_after_s=12.5))

    assert gate.wait_s(RateLimited) == pytest.approx(12.5, abs=1)


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


@pytest.mark.parametrize("limit", [6, 60])
def test_no_minute_has_more_requests_than_the_limit(
    limited: Callable[..., Gate], limit: int
) -> None:
    gate = limited(requests_per_minute=limit)

    first, second = granted(gate, step_s=0.25), granted(gate, step_s=0.25)

    assert 0.8 * limit <= first <= limit + 1
    assert second <= limit + 1


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


# Without Redis


def test_while_redis_cannot_be_asked_everything_is_let_through(own_server: EmbeddedRedis) -> None:
    with redis.Redis.from_url(own_server.url, socket_timeout=0.2) as client:
        gate = Gate(client, requests_per_minute=1, most_at_once=1)
        under_way = gate.one.admit(tokens=100, within_s=60)
        own_server.stop()

        gate.one.failed(under_way, DOWN, estimated=100)
        for error in (None, DOWN, SHUT, BUSY):
            gate.call(error)

        assert gate.one.admit(tokens=1, within_s=60) is None
        assert gate.other.admit(tokens=1, within_s=60) is None
        with gate.one.place(within_s=60), gate.other.place(within_s=60):
            pass


# --- Who waits for a summary: namespaces take turns, and the one with the least room comes first.


@pytest.fixture
def server(redis_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A database of its own: these keys are of no namespace."""
    with redis.Redis.from_url(redis_server.url, db=9) as client:
        client.flushdb()
        yield client


@pytest.fixture
def waiting(server: redis.Redis) -> RedisWaiting:
    return RedisWaiting(server)


def ref(namespace: str, session: object) -> SessionRef:
    return SessionRef(Namespace(namespace), SessionId(str(session)))


def add_all(waiting: RedisWaiting, namespace: str, sessions: Iterable[object]) -> None:
    for session in sessions:
        waiting.add(ref(namespace, session), room=0.1)


def taken(waiting: RedisWaiting, count: int) -> list[str]:
    """The namespaces of the next so many."""
    found = [waiting.take() for _ in range(count)]
    return [one.namespace for one in found if one]


def test_the_one_with_the_least_room_comes_first(waiting: RedisWaiting) -> None:
    for session, room in (("a", 0.15), ("b", -0.2), ("c", 0.01)):
        waiting.add(ref("ns", session), room=room)

    assert [waiting.take() for _ in range(4)] == [ref("ns", s) for s in "bca"] + [None]


def test_who_has_waited_comes_before_all_that_come_later(server: redis.Redis) -> None:
    waiting = RedisWaiting(server, ageing_s=0.02)
    waiting.add(ref("ns", "patient"), room=1.0)
    newcomers = itertools.count()

    def taken_at_last() -> bool:
        """With an endless row of sessions that have no room at all."""
        waiting.add(ref("ns", next(newcomers)), room=-5.0)
        waiting.add(ref("ns", "patient"), room=1.0)  # as the sweep has it do, every few seconds
        return waiting.take() == ref("ns", "patient")

    wait_until(taken_at_last, within_s=10)


def test_namespaces_take_turns_however_many_sessions_they_have(waiting: RedisWaiting) -> None:
    add_all(waiting, "noisy", range(1_000))
    add_all(waiting, "quiet", range(3))

    assert Counter(taken(waiting, 6)) == {"noisy": 3, "quiet": 3}


def test_a_session_looked_at_while_it_waits_gets_one_message_unless_messages_were_lost(
    client: ContextClient, worker: Worker
) -> None:
    sessions = [worker.ref(name) for name in ("a", "b")]
    for each in sessions:
        client.open(each.session, Policy(max_tokens=512))
        client.push_many([(each.session, {"role": "user", "content": "word " * 60})] * 12)
        worker.pipeline.estimate(each)

    def looked_at() -> list[str]:
        """The sessions whose messages wait after some looks, as of a sweep while nobody writes."""
        for each in sessions * 3:
            assert worker.pipeline.compact(each).outcome == "needs-summary"
        return [each.session for task, each in worker.hints.sent if task == jobs.SUMMARIZE]

    assert looked_at() == ["a", "b"]
    worker.hints.sent.clear()
    assert looked_at() == ["a", "b"]
