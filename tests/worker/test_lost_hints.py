"""Hints may be lost, late or doubled: the sweep finds what they should have said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat, push_all, send, settled, stored
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import COMPACT, ESTIMATE

pytestmark = pytest.mark.worker


@pytest.mark.usefixtures("worker")
def test_turns_pushed_without_a_hint_are_counted_and_compacted(
    silent: ContextClient, server: redis.Redis
) -> None:
    pushed = chat(120)
    silent.open("s", SMALL)

    push_all(silent, "s", pushed)

    wait_until(lambda: settled(silent, "s", turns=120))
    assert silent.info("s").version > 0
    assert silent.hints.published == 0
    stored(server, silent, "s").assert_conserved(pushed)


def test_doubled_hints_do_nothing_twice(
    silent: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    worker: WorkerProcess,
) -> None:
    pushed = chat(120)
    silent.open("s", SMALL)
    push_all(silent, "s", pushed)

    for task in (ESTIMATE, COMPACT, ESTIMATE, COMPACT):
        send(store.url, task, silent.namespace, "s")

    wait_until(lambda: settled(silent, "s", turns=120))
    wait_until(lambda: server.llen("estimate") == server.llen("compact") == 0)
    stored(server, silent, "s").assert_conserved(pushed)
    assert worker.output().count("Traceback") == 0


def test_a_broker_flushed_under_load_loses_nothing(
    store: EmbeddedRedis,
    server: redis.Redis,
    namespace: str,
    new_server: Callable[..., EmbeddedRedis],
    tmp_path: Path,
) -> None:
    broker = new_server()
    sessions = {f"s{n}": chat(90, topic=f"parcel of s{n}") for n in range(15)}
    with (
        ContextClient(store.url, namespace=namespace, broker=broker.url) as client,
        redis.Redis.from_url(broker.url) as messages,
        WorkerProcess(store.url, tmp_path, env={"TURNMILL_BROKER_URL": broker.url}),
    ):
        for session in sessions:
            client.open(session, SMALL)
        for at in range(90):
            for session, turns in sessions.items():
                client.push(session, turns[at])
            if at % 30 == 15:
                messages.flushall()

        for session, turns in sessions.items():
            wait_until(lambda: settled(client, session, turns=90), within_s=60)  # noqa: B023
            stored(server, client, session).assert_conserved(turns)
            assert client.info(session).version > 0
