"""Many clients at once against each quota: how far they get beyond it, and that nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

import pytest

from tests.redis.test_quotas import HELLO, LONG
from turnmill import AsyncContextClient, ContextClient, QuotaExceeded
from turnmill.admission import REPORT_EVERY
from turnmill.contract.names import Namespace
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.background.quotas import QuotaWatch

CLIENTS = 8
TOLD_EVERY_S = 0.3


@pytest.fixture
def crowd(
    client: ContextClient, redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[ContextClient]]:
    """Clients of one tenant that ask sooner than after ten seconds."""
    monkeypatch.setattr("turnmill._sync.client.REGISTER_EVERY_S", TOLD_EVERY_S)
    made = [
        ContextClient(redis_server.url, namespace=client.namespace, broker=client._waker)
        for _ in range(CLIENTS)
    ]
    yield made
    for each in made:
        each.close()


@contextmanager
def measuring(watch: QuotaWatch, client: ContextClient) -> Iterator[None]:
    """A sweep of the client's namespace, over and over."""
    over = threading.Event()

    def sweep() -> None:
        while not over.wait(0.02):
            watch.run([Namespace(client.namespace)])

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def pushed_by_all(
    crowd: list[ContextClient], push: Callable[[ContextClient, str], object]
) -> list[float]:
    """When each push of all these clients was taken, up to the one that was refused."""

    def work(number: int) -> list[float]:
        taken: list[float] = []
        for at in range(5_000):
            try:
                push(crowd[number], f"s{number}-{at}")
            except QuotaExceeded:
                return taken
            taken.append(time.monotonic())
        raise AssertionError("no push was refused")

    with ThreadPoolExecutor(len(crowd)) as pool:
        return sorted(chain.from_iterable(pool.map(work, range(len(crowd)))))


@pytest.mark.parametrize("quota", ["sessions = 20", "bytes = 400_000"])
def test_clients_at_once_exceed_a_quota_for_no_longer_than_it_takes_to_tell_them(
    quota: str,
    client: ContextClient,
    crowd: list[ContextClient],
    measure: Callable[[str], QuotaWatch],
) -> None:
    def push(by: ContextClient, session: str) -> None:
        time.sleep(0.02)
        by.push(session, LONG)  # of 20 kB each: the twentieth is at both quotas

    with measuring(measure(quota), client):
        taken = pushed_by_all(crowd, push)

    assert taken[-1] - taken[19] < 2 * TOLD_EVERY_S + 5 * 0.02 + 1.0
    assert len(taken) >= 20
    assert len(client.sessions()) == len(taken)  # what was taken is there, what was refused is not


def test_clients_at_once_exceed_the_rate_by_what_they_have_not_told(
    client: ContextClient, crowd: list[ContextClient], measure: Callable[[str], QuotaWatch]
) -> None:
    measure("pushes_per_second = 50")
    began = time.monotonic()
    taken = pushed_by_all(crowd, lambda by, session: by.push(session[:2], HELLO))
    passed_s = time.monotonic() - began

    assert len(taken) <= (20 + passed_s) * 50 + CLIENTS * (REPORT_EVERY + 1)
    assert sum(client.info(f"s{at}").last_seq for at in range(CLIENTS)) == len(taken)


async def test_pushes_at_once_of_one_client_count_once(
    client: ContextClient, measure: Callable[[str], QuotaWatch], redis_server: EmbeddedRedis
) -> None:
    measure("pushes_per_second = 50")
    async with AsyncContextClient(
        redis_server.url, namespace=client.namespace, broker=client._waker
    ) as agent:
        for _ in range(5):  # 300, of 1,000 that may come at once
            await asyncio.gather(*(agent.push(f"s{at}", HELLO) for at in range(60)))

    assert client.info("s0").last_seq == 5
