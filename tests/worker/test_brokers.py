"""A broker may be down, deaf, flushed or dead: no agent notices, no worker ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    SMALL,
    NewServer,
    chat,
    long_turns,
    push_all,
    send,
    stored,
    until_settled,
    user,
)
from turnmill import AsyncContextClient, ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract import jobs
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.hint.waker import CeleryWaker, celery_class

pytestmark = pytest.mark.worker

SESSIONS = tuple({shard_of(SessionId(f"s{n}")): f"s{n}" for n in range(1000)}.values())
"""One of each shard: no two of them share a hint."""

WAITS_S = 4.0
"""How long a waker waits for its broker: far longer than all pushes together take."""


@pytest.fixture(params=["down", "black hole"])
def dead_broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a broker that refuses connections, or takes them and says nothing."""
    celery_class()  # a busy machine may import it for seconds, which no broker is to blame for
    if request.param == "down":
        yield f"redis://127.0.0.1:{free_port()}/0"
        return
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(64)
        yield f"redis://127.0.0.1:{hole.getsockname()[1]}/0"


def test_a_push_waits_for_no_broker_and_never_fails(
    dead_broker: str, store: EmbeddedRedis, namespace: str
) -> None:
    waker = CeleryWaker(dead_broker, timeout_s=WAITS_S)
    with ContextClient(store.url, namespace=namespace, broker=waker) as client:
        start = time.perf_counter()
        for name in SESSIONS:
            client.push(name, user("Hello?"))
        took = time.perf_counter() - start

        wait_until(lambda: client.hints.dropped == len(SESSIONS), what="all given up and counted")
        assert client.hints.published == 0
    assert took < WAITS_S


async def test_the_event_loop_goes_on_without_a_broker(
    dead_broker: str, store: EmbeddedRedis, namespace: str
) -> None:
    pauses: list[float] = []
    start = time.perf_counter()

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            pauses.append(time.perf_counter() - before)

    ticker = asyncio.create_task(tick())
    waker = CeleryWaker(dead_broker, timeout_s=WAITS_S)
    async with AsyncContextClient(store.url, namespace=namespace, broker=waker) as client:
        await asyncio.gather(*(client.push(name, user("Hello?")) for name in SESSIONS))
    ticker.cancel()

    assert max(pauses) < WAITS_S
    assert time.perf_counter() - start < WAITS_S, "closing waits for no broker either"


def test_work_resumes_by_itself_when_the_broker_is_back(
    store: EmbeddedRedis, server: redis.Redis, namespace: str, new_server: NewServer, tmp_path: Path
) -> None:
    broker = new_server()
    pushed = chat(150)
    with (
        ContextClient(store.url, namespace=namespace, broker=broker.url) as client,
        WorkerProcess(store.url, tmp_path, env={"TURNMILL_BROKER_URL": broker.url}) as worker,
    ):
        client.open("s", SMALL)
        push_all(client, "s", pushed[:50])
        until_settled(client, "s", turns=50)

        broker.kill()
        push_all(client, "s", pushed[50:100])
        wait_until(lambda: "Cannot connect" in worker.output(), what="the worker missing it")
        assert client.read("s").tokens <= SMALL.hard_limit
        broker.start()
        push_all(client, "s", pushed[100:])

        until_settled(client, "s", turns=150)
        stored(server, client, "s").assert_conserved(pushed)
        published = client.hints.published
        later = ({"role": "user", "content": f"Hints work again, too: {at}."} for at in count())

        def published_again() -> bool:
            client.push("later", next(later))  # the first ones may meet the connection that broke
            return client.hints.published > published

        wait_until(published_again)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_with_fetched_messages_outlives_its_broker(
    pool: str, namespace: str, store: EmbeddedRedis, new_server: NewServer, tmp_path: Path
) -> None:
    broker = new_server()
    env = {"TURNMILL_BROKER_URL": broker.url}
    with (
        ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client,
        WorkerProcess(store.url, tmp_path, pool=pool, concurrency=1, env=env) as worker,
    ):
        client.open("slow", SMALL)
        push_all(client, "slow", long_turns())
        for _ in range(40):
            send(broker.url, jobs.ESTIMATE, namespace, "slow")
        wait_until(lambda: "event='estimated'" in worker.output(), what="a task taken")
        # The worker hears first that nobody announces commands to it, then that no message comes.
        os.kill(worker.pid, signal.SIGSTOP)
        with redis.Redis.from_url(broker.url) as server:
            server.client_kill_filter(_type="pubsub")
            time.sleep(0.2)
        broker.kill()
        os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: "Connection to broker lost" in worker.output(), what="noticed")
        broker.start()
        client.open("next", SMALL)
        push_all(client, "next", chat(120))

        until_settled(client, "next", turns=120)
        assert "Unrecoverable error" not in worker.output()
        assert "DeprecationWarning" not in worker.output(), "Celery's, at each lost connection"


@pytest.mark.usefixtures("worker")
def test_turns_pushed_without_a_hint_are_counted_and_compacted(
    silent: ContextClient, server: redis.Redis
) -> None:
    pushed = chat(120)
    silent.open("s", SMALL)

    push_all(silent, "s", pushed)

    until_settled(silent, "s", turns=120)
    assert silent.info("s").version > 0
    assert silent.hints.published == 0
    stored(server, silent, "s").assert_conserved(pushed)
