"""A broker that dies while messages are fetched ends no worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat, long_turns, push_all, send, settled
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs

pytestmark = pytest.mark.worker


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_with_fetched_messages_outlives_its_broker(
    pool: str,
    namespace: str,
    store: EmbeddedRedis,
    new_server: Callable[..., EmbeddedRedis],
    tmp_path: Path,
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

        wait_until(lambda: settled(client, "next", turns=120), what="swept and compacted")
        assert "Unrecoverable error" not in worker.output()
