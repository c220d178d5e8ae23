"""A broker that is down, or accepts and never answers, is not an agent's problem."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat, push_all, settled, stored
from turnmill import AsyncContextClient, ContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.hint.waker import CeleryWaker

pytestmark = pytest.mark.worker

SESSIONS = tuple({shard_of(SessionId(f"s{n}")): f"s{n}" for n in range(1000)}.values())
"""One of each shard: no two of them share a hint."""

WAITS_S = 5.0
"""How long a waker waits for its broker: longer than all pushes together take."""


@pytest.fixture(params=["down", "black hole"])
def dead_broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a broker that refuses connections, or takes them and says nothing."""
    if request.param == "down":
        yield f"redis://127.0.0.1:{free_port()}/0"
        return
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(64)
        yield f"redis://127.0.0.1:{hole.getsockname()[1]}/0"


def test_a_push_stays_fast_and_never_fails_without_a_broker(
    dead_broker: str, store: EmbeddedRedis, namespace: str
) -> None:
    waker = CeleryWaker(dead_broker, timeout_s=WAITS_S)
    with ContextClient(store.url, namespace=namespace, broker=waker) as client:
        start = time.perf_counter()
        for name in SESSIONS:
            client.push(name, {"role": "user", "content": "Hello?"})
        took = time.perf_counter() - start

        wait_until(
            lambda: client.hints.dropped == len(SESSIONS), what="all hints given up and counted"
        )
        assert client.hints.published == 0
    assert took < WAITS_S


async def test_the_event_loop_goes_on_without_a_broker(
    dead_broker: str, store: EmbeddedRedis, namespace: str
) -> None:
    pauses: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            pauses.append(time.perf_counter() - before)

    ticker = asyncio.create_task(tick())
    waker = CeleryWaker(dead_broker, timeout_s=WAITS_S)
    async with AsyncContextClient(store.url, namespace=namespace, broker=waker) as client:
        await asyncio.gather(
            *(client.push(name, {"role": "user", "content": "Hello?"}) for name in SESSIONS)
        )
        await asyncio.to_thread(wait_until, lambda: client.hints.dropped == len(SESSIONS))
    ticker.cancel()

    assert max(pauses) < WAITS_S


def test_closing_a_client_does_not_wait_for_a_dead_broker(
    dead_broker: str, store: EmbeddedRedis, namespace: str
) -> None:
    client = ContextClient(store.url, namespace=namespace, broker=dead_broker)
    client.push("s", {"role": "user", "content": "Bye."})

    start = time.perf_counter()
    client.close()

    assert time.perf_counter() - start < 2


def test_work_resumes_by_itself_when_the_broker_is_back(
    store: EmbeddedRedis,
    server: redis.Redis,
    namespace: str,
    new_server: Callable[..., EmbeddedRedis],
    tmp_path: Path,
) -> None:
    broker = new_server()
    pushed = chat(150)
    with (
        ContextClient(store.url, namespace=namespace, broker=broker.url) as client,
        WorkerProcess(store.url, tmp_path, env={"TURNMILL_BROKER_URL": broker.url}) as worker,
    ):
        client.open("s", SMALL)
        push_all(client, "s", pushed[:50])
        wait_until(lambda: settled(client, "s", turns=50))

        broker.kill()
        push_all(client, "s", pushed[50:100])
        wait_until(lambda: "Cannot connect" in worker.output(), what="the worker missing it")
        assert client.read("s").tokens <= SMALL.hard_limit
        assert client.info("s").counted_seq < 100
        broker.start()
        push_all(client, "s", pushed[100:])

        wait_until(lambda: settled(client, "s", turns=150), within_s=60)
        stored(server, client, "s").assert_conserved(pushed)
        published = client.hints.published
        client.push("later", {"role": "user", "content": "Hints work again, too."})
        wait_until(lambda: client.hints.published > published)
