"""What clients are told of their namespace's quotas, and how workers measure them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import AsyncContextClient, ContextClient, Policy, QuotaExceeded
from turnmill.admission import REPORT_EVERY
from turnmill.contract.names import Namespace
from turnmill.contract.registry import registry_keys
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.background.quotas import EVERY, QuotaWatch
from turnmill_worker.store.reports import RedisUsage

HELLO = {"role": "user", "content": "Hello."}
LONG = {"role": "user", "content": "word " * 4_000}


def again(client: ContextClient) -> ContextClient:
    """Another process of the same tenant."""
    return ContextClient(client._redis._given, namespace=client.namespace, broker=client._waker)


def pushed_until_refused(client: ContextClient) -> QuotaExceeded:
    for _ in range(5_000):
        try:
            client.push("s", HELLO)
        except QuotaExceeded as error:
            return error
    raise AssertionError("no push was refused")


def test_no_session_is_made_beyond_the_quota_and_those_there_go_on(
    client: ContextClient, measure: Callable[[str], QuotaWatch]
) -> None:
    client.open("one")
    client.push("two", HELLO)
    watch = measure("sessions = 2")
    other = again(client)

    with pytest.raises(QuotaExceeded, match=r"2 of 2 sessions; nothing was stored") as pushed:
        other.push("three", HELLO)
    with pytest.raises(QuotaExceeded):
        other.open("three")
    with pytest.raises(QuotaExceeded):
        other.push_many([("one", HELLO), ("three", HELLO)])
    assert other.push("one", HELLO).seq == 1
    assert other.push("two", HELLO).seq == 2
    assert set(other.sessions()) == {"one", "two"}
    assert (pushed.value.quota, pushed.value.used, pushed.value.allowed) == ("sessions", 2, 2)

    other.forget("one")
    for _ in range(EVERY):  # nothing is listed there: those that are refused are looked at still
        watch.run([])
    assert again(client).push("three", HELLO).seq == 1


def test_a_namespace_with_too_many_bytes_takes_no_push_until_some_are_gone(
    client: ContextClient, measure: Callable[[str], QuotaWatch]
) -> None:
    client.push_many([(f"s{at}", LONG) for at in range(10)])
    measure("bytes = 100_000")
    other = again(client)

    with pytest.raises(QuotaExceeded, match="of 100,000 bytes") as refused:
        other.push("s1", HELLO)
    assert refused.value.used > 10 * 20_000
    assert other.read("s1").messages

    for at in range(1, 10):
        other.forget(f"s{at}")
    measure("bytes = 100_000")
    time.sleep(1)  # a client that was refused asks again after a second
    assert other.push("s0", HELLO).seq == 2


def test_memory_is_estimated_from_a_sample(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    usage = RedisUsage(redis_client)
    client.push_many([(f"s{at}", LONG) for at in range(100)])
    few = usage.bytes(worker.ref("s").namespace)
    client.push_many([(f"s{at}", LONG) for at in range(100, 700)])
    many = usage.bytes(worker.ref("s").namespace)

    assert few > 100 * 20_000
    assert many == pytest.approx(7 * few, rel=0.05)


def test_pushes_beyond_the_rate_wait_and_are_taken_again(
    client: ContextClient, measure: Callable[[str], QuotaWatch]
) -> None:
    measure("pushes_per_second = 50")
    other = again(client)
    began = time.monotonic()
    refused = pushed_until_refused(other)
    passed_s = time.monotonic() - began
    pushed = client.info("s").last_seq

    assert 20 * 50 <= pushed <= (20 + passed_s) * 50 + REPORT_EVERY
    assert refused.quota == "pushes_per_second"
    with pytest.raises(QuotaExceeded):  # all clients of the namespace share it
        again(client).push("other", HELLO)
    time.sleep(refused.retry_after_s + 0.01)
    assert other.push("s", HELLO).seq == pushed + 1


def test_what_was_pushed_before_a_client_closed_counts(
    client: ContextClient, measure: Callable[[str], QuotaWatch], redis_server: EmbeddedRedis
) -> None:
    measure("pushes_per_second = 1")
    for _ in range(3):
        with ContextClient(
            redis_server.url, namespace=client.namespace, broker=client._waker
        ) as brief:
            brief.push_many([("s", HELLO)] * 8)

    with pytest.raises(QuotaExceeded):
        again(client).push("s", HELLO)


async def test_an_asynchronous_client_is_refused_too(
    client: ContextClient, measure: Callable[[str], QuotaWatch], redis_server: EmbeddedRedis
) -> None:
    client.open("one", Policy())
    measure("sessions = 1")
    async with AsyncContextClient(
        redis_server.url, namespace=client.namespace, broker=client._waker
    ) as other:
        with pytest.raises(QuotaExceeded):
            await other.push("two", HELLO)
        assert (await other.push("one", HELLO)).seq == 1


def test_without_workers_that_measure_nobody_is_refused_for_long(
    client: ContextClient, measure: Callable[[str], QuotaWatch], redis_client: redis.Redis
) -> None:
    client.push("s", HELLO)
    measure("sessions = 1\nbytes = 1\npushes_per_second = 1")

    left_ms = redis_client.pttl(registry_keys(Namespace(client.namespace)).quota)

    assert 0 < left_ms <= 60_000
