"""Workers end when told to: warm ones finish their job, hurried ones leave it to others."""

from __future__ import annotations

import re
from collections.abc import Callable
from signal import SIGINT, SIGQUIT, SIGTERM, Signals

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    ROLLING,
    SMALL,
    Events,
    chat,
    end_with,
    keys_of,
    long_turns,
    push_all,
    send,
    settled,
    stored,
)
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs

pytestmark = pytest.mark.worker


def test_a_warm_shutdown_finishes_the_job_and_leaves_the_rest_to_others(
    client: ContextClient, server: redis.Redis, new_worker: Callable[..., WorkerProcess]
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

    wait_until(lambda: settled(client, "queued", turns=120))
    stored(server, client, "at-work").assert_conserved(pushed)
    stored(server, client, "queued").assert_conserved(queued)


@pytest.mark.parametrize(
    ("pool", "signals"),
    [
        ("prefork", (SIGTERM, SIGTERM)),
        ("prefork", (SIGQUIT,)),
        ("solo", (SIGQUIT,)),
        ("solo", (SIGINT, SIGINT)),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(one.name for one in value),
)
def test_a_hurried_shutdown_loses_nothing(
    pool: str,
    signals: tuple[Signals, ...],
    client: ContextClient,
    server: redis.Redis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    pushed, queued = long_turns(), chat(120)
    client.open("at-work", ROLLING)
    client.open("queued", SMALL)
    leaving = new_worker("leaving", pool=pool)
    push_all(client, "at-work", pushed)
    wait_until(lambda: server.exists(keys_of(client, "at-work").lease))
    push_all(client, "queued", queued)

    end_with(leaving, *signals)
    new_worker("staying")

    for session, turns in (("at-work", pushed), ("queued", queued)):
        wait_until(lambda: settled(client, session, turns=len(turns)), within_s=60)  # noqa: B023
        stored(server, client, session).assert_conserved(turns)


def test_a_cold_shutdown_tells_of_all_jobs_that_were_done(
    store: EmbeddedRedis, client: ContextClient, new_worker: Callable[..., WorkerProcess]
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
