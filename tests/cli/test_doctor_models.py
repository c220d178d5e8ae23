"""What `turnmill doctor` says of the models' endpoints."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
import redis

from tests.cli.commands import Ran
from tests.processes import wait_until
from turnmill.contract.keys import ENDPOINTS, endpoint_hash, endpoint_keys
from turnmill_worker.errors import (
    EndpointRefused,
    RateLimited,
    SummarizerFailed,
    SummarizerUnavailable,
)
from turnmill_worker.store.model_gates import RedisGate


def checks(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in ran.json["checks"]}


@pytest.fixture
def gate(redis_client: redis.Redis) -> Iterator[tuple[str, RedisGate, str]]:
    """A model's name, its gate and the gate's key; gone afterwards."""
    model = f"m-{uuid.uuid4().hex}"
    hashed = endpoint_hash("models.example/v1", model)
    key = endpoint_keys(hashed).gate
    yield model, RedisGate(redis_client, "https://me:hunter2@models.example/v1", model), key
    redis_client.delete(key)
    redis_client.zrem(ENDPOINTS, hashed)


def test_the_doctor_knows_a_model_that_answers(
    turnmill: Callable[..., Ran], gate: tuple[str, RedisGate, str], redis_client: redis.Redis
) -> None:
    model, made, _ = gate
    # What is used counts by the minute: all of this is to happen in one.
    wait_until(lambda: redis_client.time()[0] % 60 < 52)
    round_ = made.admit(tokens=100, within_s=60)
    made.failed(round_, SummarizerUnavailable(f"{model}: HTTP 503"), estimated=100)
    round_ = made.admit(tokens=100, within_s=60)
    made.answered(round_, estimated=100, used=1_234)

    ran = turnmill("doctor", "--json")

    found = checks(ran)[f"model {model}"]
    assert found["status"] == "ok"
    assert found["found"].startswith(
        "models.example/v1: breaker closed; last failure SummarizerUnavailable (HTTP 503)"
    )
    assert "2 requests and 1,234 tokens" in found["found"]
    assert "hunter2" not in ran.stdout


def test_the_doctor_knows_what_is_wrong_with_a_model(
    turnmill: Callable[..., Ran], gate: tuple[str, RedisGate, str], redis_client: redis.Redis
) -> None:
    model, made, key = gate

    def said() -> str:
        found = checks(turnmill("doctor", "--json"))[f"model {model}"]
        assert found["status"] == "warning"
        return found["found"]

    made.failed(made.admit(tokens=1, within_s=60), RateLimited(retry_after_s=50), estimated=1)
    assert "pauses for" in said()
    redis_client.hdel(key, "blocked_until")
    for round_ in [made.admit(tokens=1, within_s=60) for _ in range(3)]:
        made.failed(round_, SummarizerFailed(), estimated=1)
    assert "breaker open for" in said()
    redis_client.hset(key, "open_until", 1)
    assert "until the next call probes it" in said()
    made.admit(tokens=1, within_s=60)
    assert "breaker probing after SummarizerFailed" in said()


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (EndpointRefused(), "TURNMILL_MODEL_KEY"),
        (RateLimited(retry_after_s=50), "TURNMILL_MODEL_REQUESTS_PER_MINUTE"),
        (SummarizerUnavailable(retry_after_s=50), "is the endpoint up?"),
    ],
)
def test_the_doctors_advice_is_about_the_failure(
    turnmill: Callable[..., Ran],
    gate: tuple[str, RedisGate, str],
    error: SummarizerFailed | SummarizerUnavailable,
    advice: str,
) -> None:
    model, made, _ = gate

    for round_ in [made.admit(tokens=1, within_s=60) for _ in range(3)]:
        made.failed(round_, error, estimated=1)

    assert advice in checks(turnmill("doctor", "--json"))[f"model {model}"]["advice"]
