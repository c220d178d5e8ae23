"""A crash anywhere loses nothing and repeats nothing."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, SMALL, chat, keys_of, long_turns, settled, stored
from turnmill import ContextClient

pytestmark = pytest.mark.worker


def _caught_holding_the_lease(
    client: ContextClient, server: redis.Redis, session: str
) -> list[dict[str, object]]:
    """Push a session whose compaction takes seconds, and return once a worker is at it."""
    pushed = long_turns()
    client.open(session, ROLLING)
    client.push_many((session, message) for message in pushed)
    lease = keys_of(client, session).lease
    wait_until(lambda: server.exists(lease), what="a worker holding the lease")
    return pushed


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_the_work_of_a_killed_worker_is_finished_by_another(
    pool: str,
    client: ContextClient,
    server: redis.Redis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    doomed = new_worker("doomed", pool=pool)
    pushed = _caught_holding_the_lease(client, server, "s")

    doomed.kill()
    assert client.info("s").version == 0
    new_worker("heir")

    wait_until(lambda: settled(client, "s", turns=len(pushed)), within_s=60)
    stored(server, client, "s").assert_conserved(pushed)


def test_a_killed_child_of_a_prefork_worker_costs_only_a_retry(
    client: ContextClient, server: redis.Redis, new_worker: Callable[..., WorkerProcess]
) -> None:
    worker = new_worker("parent", pool="prefork", concurrency=1)
    pushed = _caught_holding_the_lease(client, server, "s")

    for child in psutil.Process(worker.pid).children():
        child.kill()

    wait_until(lambda: settled(client, "s", turns=len(pushed)), within_s=60)
    stored(server, client, "s").assert_conserved(pushed)


def test_reads_stay_whole_while_the_only_worker_is_dead(
    client: ContextClient, server: redis.Redis, new_worker: Callable[..., WorkerProcess]
) -> None:
    doomed = new_worker("doomed")
    pushed = _caught_holding_the_lease(client, server, "s")

    doomed.kill()
    after = client.push("s", {"role": "user", "content": "Are you still there?"})
    context = client.read("s")

    assert context.last_seq == after.seq == len(pushed) + 1
    assert context.messages[-1]["content"] == "Are you still there?"
    assert context.tokens <= ROLLING.hard_limit


def test_nothing_is_lost_or_doubled_while_workers_keep_dying(
    client: ContextClient, server: redis.Redis, new_worker: Callable[..., WorkerProcess]
) -> None:
    sessions = {f"s{n}": chat(120, topic=f"parcel of s{n}") for n in range(20)}
    for session in sessions:
        client.open(session, SMALL)

    for start in range(0, 120, 40):
        doomed = new_worker(f"doomed-{start}")
        before = sum(client.info(session).counted_seq for session in sessions)
        for session, turns in sessions.items():
            client.push_many((session, turn) for turn in turns[start : start + 40])
        wait_until(
            lambda: sum(client.info(s).counted_seq for s in sessions) > before,  # noqa: B023
            what="the doomed worker at work",
        )
        doomed.kill()
    new_worker("heir")

    for session, turns in sessions.items():
        wait_until(lambda: settled(client, session, turns=120), within_s=60)  # noqa: B023
        stored(server, client, session).assert_conserved(turns)
        assert client.info(session).version > 0
