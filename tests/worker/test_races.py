"""Workers at one session, or at one that is forgotten: the version keeps the outcome right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.chaos.proxy import Proxy, Trap
from tests.processes import wait_until
from tests.worker.harness import (
    ROLLING,
    Events,
    JsonMessage,
    NewWorker,
    chat,
    long_turns,
    push_all,
    send,
    stored,
    until_settled,
)
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import ESTIMATE

pytestmark = pytest.mark.worker


@contextmanager
def frozen_at_commit(
    client: ContextClient,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: NewWorker,
    pushed: list[JsonMessage],
    *ends: str,
) -> Iterator[Events]:
    """A session whose worker stands still right before its commit while the block runs.

    ``ends``: what may come of that commit afterwards.
    """
    commit = front.set(Trap("commit", "freeze"))
    new_worker("frozen", env={"TURNMILL_REDIS_URL": front.url})
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", pushed)
        assert commit.sprung.wait(180)
        try:
            yield events
        finally:
            commit.released.set()
        wait_until(lambda: {*ends} & {*events.outcomes("s")}, within_s=60, what=str(ends))


def test_a_worker_paused_beyond_its_lease_cannot_commit_over_another(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: NewWorker,
) -> None:
    pushed = chat(100)

    with frozen_at_commit(client, store, front, new_worker, pushed, "stale") as events:
        new_worker("other")
        until_settled(client, "s")
        after_other = client.read("s").messages

        wait_until(lambda: "committed" in events.outcomes("s"), what="the other's job is told")

    assert events.outcomes("s").count("committed") == 1
    assert client.info("s").version == 1
    assert client.read("s").messages == after_other
    stored(server, client, "s").assert_conserved(pushed)


def test_a_new_session_of_a_forgotten_name_gets_nothing_of_the_old_one(
    client: ContextClient, store: EmbeddedRedis, front: Proxy, new_worker: NewWorker
) -> None:
    with frozen_at_commit(
        client, store, front, new_worker, long_turns(), "stale", "unknown"
    ) as events:
        client.forget("s")
        push_all(client, "s", chat(3, topic="letter"))
    wait_until(lambda: client.info("s").counted_seq == 3)

    assert "committed" not in events.outcomes("s")
    assert client.read("s").messages == chat(3, topic="letter")
    assert client.info("s").version == 0


def test_turns_not_yet_counted_do_not_cost_the_others_their_summary(
    silent: ContextClient, store: EmbeddedRedis, new_worker: NewWorker
) -> None:
    no_sweep = {"TURNMILL_SWEEP_INTERVAL_S": "3600"}
    new_worker("counting", queues="estimate", env=no_sweep)
    silent.open("s", ROLLING)
    push_all(silent, "s", chat(90)[:75])
    send(store.url, ESTIMATE, silent.namespace, "s")
    wait_until(lambda: silent.info("s").counted_seq == 75)

    push_all(silent, "s", chat(90)[75:])
    new_worker("compacting", env=no_sweep)

    wait_until(lambda: silent.info("s").version > 0)
    heads = [str(message["content"]) for message in silent.read("s").messages]
    assert any(head.startswith("[Summary") for head in heads)
