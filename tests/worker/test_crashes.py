"""Workers and servers that end, by a crash or when told to, lose and repeat nothing."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from signal import SIGQUIT, SIGTERM, Signals

import psutil
import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    ROLLING,
    SMALL,
    Events,
    JsonMessage,
    NewServer,
    NewWorker,
    chat,
    end_with,
    keys_of,
    long_turns,
    push_all,
    send,
    stored,
    until_settled,
    user,
)
from turnmill import ContextClient, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs

pytestmark = pytest.mark.worker


def _caught_holding_the_lease(
    client: ContextClient, server: redis.Redis, session: str
) -> list[JsonMessage]:
    """Push a session whose compaction takes seconds, and return once a worker is at it."""
    client.open(session, ROLLING)
    push_all(client, session, pushed := long_turns())
    lease = keys_of(client, session).lease
    wait_until(lambda: server.exists(lease), what="a worker holding the lease")
    return pushed


def test_the_work_of_a_killed_worker_is_finished_by_another(
    client: ContextClient, server: redis.Redis, new_worker: NewWorker
) -> None:
    doomed = new_worker("doomed")
    pushed = _caught_holding_the_lease(client, server, "s")

    doomed.kill()
    assert client.info("s").version == 0
    client.push("s", question := user("Are you still there?"))
    context = client.read("s")
    assert context.messages[-1] == question
    assert context.tokens <= ROLLING.hard_limit
    new_worker("heir")

    until_settled(client, "s")
    stored(server, client, "s").assert_conserved([*pushed, question])


def test_a_killed_child_of_a_prefork_worker_costs_only_a_retry(
    client: ContextClient, server: redis.Redis, new_worker: NewWorker
) -> None:
    worker = new_worker("parent", pool="prefork", concurrency=1)
    pushed = _caught_holding_the_lease(client, server, "s")

    for child in psutil.Process(worker.pid).children():
        child.kill()

    until_settled(client, "s", turns=len(pushed))
    stored(server, client, "s").assert_conserved(pushed)


def test_a_warm_shutdown_finishes_the_job_and_leaves_the_rest_to_others(
    client: ContextClient, server: redis.Redis, new_worker: NewWorker
) -> None:
    pushed, queued = long_turns(), chat(120)
    client.open("at-work", ROLLING)
    client.open("queued", SMALL)
    leaving = new_worker("leaving")
    push_all(client, "at-work", pushed)
    lease = keys_of(client, "at-work").lease
    wait_until(lambda: "needs-summary" in leaving.output() and server.exists(lease))
    push_all(client, "queued", queued)

    assert leaving.stop(within_s=60) == 0
    assert client.info("at-work").version == 1
    new_worker("staying")

    until_settled(client, "queued", turns=120)
    stored(server, client, "at-work").assert_conserved(pushed)
    stored(server, client, "queued").assert_conserved(queued)


@pytest.mark.parametrize(
    ("pool", "signals"),
    [("prefork", (SIGTERM, SIGTERM)), ("solo", (SIGQUIT,))],
    ids=lambda value: value if isinstance(value, str) else "+".join(one.name for one in value),
)
def test_a_hurried_shutdown_loses_nothing(
    pool: str,
    signals: tuple[Signals, ...],
    client: ContextClient,
    server: redis.Redis,
    new_worker: NewWorker,
) -> None:
    queued = chat(120)
    client.open("queued", SMALL)
    leaving = new_worker("leaving", pool=pool)
    pushed = _caught_holding_the_lease(client, server, "at-work")
    push_all(client, "queued", queued)

    end_with(leaving, *signals)
    new_worker("staying")

    for session, turns in (("at-work", pushed), ("queued", queued)):
        until_settled(client, session, turns=len(turns))
        stored(server, client, session).assert_conserved(turns)


def test_a_cold_shutdown_tells_of_all_jobs_that_were_done(
    store: EmbeddedRedis, client: ContextClient, new_worker: NewWorker
) -> None:
    leaving = new_worker("leaving")
    with Events(store.url) as events:
        for at in range(60):
            send(store.url, jobs.ESTIMATE, client.namespace, f"none-{at}")
        # What a job did is told a moment later, with what follows soon.
        wait_until(lambda: done_by(leaving), what="a job done")
        end_with(leaving, SIGQUIT)

        # One job may have been cut between its last line and its end.
        wait_until(lambda: len(done_by(leaving) - told(events)) <= 1, what="all jobs told of")


def done_by(worker: WorkerProcess) -> set[str]:
    """The ids of the jobs that say in the worker's log what came of them."""
    return set(re.findall(r"event='unknown'.* task_id='([-\w]+)'", worker.output()))


def told(events: Events) -> set[str]:
    """The ids of the jobs that Celery's events say are done."""
    return {str(one["uuid"]) for one in list(events.seen) if one["type"] == "task-succeeded"}


def _push_stubbornly(client: ContextClient, session: str, turns: list[JsonMessage]) -> None:
    """Push each turn under an id until Redis has acknowledged it."""
    for at, turn in enumerate(turns):
        while True:
            try:
                client.push(session, turn, turn_id=f"{session}-{at}")
            except StoreUnavailable:
                continue
            break


def test_a_killed_and_restarted_store_loses_no_acknowledged_turn(
    namespace: str, new_server: NewServer, tmp_path: Path
) -> None:
    store = new_server(durable=True)
    sessions = {f"s{n}": chat(300, topic=f"parcel of s{n}") for n in range(4)}
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace=namespace, timeout_s=1) as client,
        WorkerProcess(store.url, tmp_path) as worker,
    ):
        server.config_set("appendfsync", "always")
        for session in sessions:
            client.open(session, SMALL)
        threads = [
            threading.Thread(target=_push_stubbornly, args=(client, session, turns))
            for session, turns in sessions.items()
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: client.info("s0").last_seq >= 60)

        assert client.info("s0").last_seq < 300
        store.kill()
        store.start()
        for thread in threads:
            thread.join(timeout=60)

        for session, turns in sessions.items():
            until_settled(client, session, turns=300)
            stored(server, client, session).assert_conserved(turns)
        assert worker.stop() == 0
