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
    SMALL,
    Events,
    JsonMessage,
    NewWorker,
    chat,
    keys_of,
    long_turns,
    push_all,
    send,
    stored,
    until_settled,
)
from turnmill import ContextClient, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import COMPACT, ESTIMATE

pytestmark = pytest.mark.worker


def test_two_workers_commit_each_version_once(
    client: ContextClient, server: redis.Redis, store: EmbeddedRedis, new_worker: NewWorker
) -> None:
    sessions = {f"s{n}": chat(120, topic=f"parcel of s{n}") for n in range(5)}
    new_worker("one")
    new_worker("two")

    with Events(store.url) as events:
        for session in sessions:
            client.open(session, SMALL)
        for at in range(120):
            for session, turns in sessions.items():
                client.push(session, turns[at])
                if at % 30 == 0:  # a hint nobody asked for
                    send(store.url, COMPACT, client.namespace, session)
        for session in sessions:
            until_settled(client, session, turns=120)
        wait_until(lambda: server.llen("compact") == server.llen("summarize") == 0)

        for session, turns in sessions.items():
            wait_until(
                lambda: len(committed(events, session)) == client.info(session).version,  # noqa: B023
                what="an event for each commit",
            )
            assert sorted(committed(events, session)) == stored(server, client, session).versions
            stored(server, client, session).assert_conserved(turns)


def committed(events: Events, session: str) -> list[int]:
    return [one["version"] for one in events.results(session) if one["outcome"] == "committed"]


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


def test_turns_pushed_during_a_compaction_are_kept_and_do_not_invalidate_it(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: NewWorker,
) -> None:
    before, during = long_turns(), chat(5)

    with frozen_at_commit(client, store, front, new_worker, before, "committed") as events:
        push_all(client, "s", during)
        assert client.info("s").version == 0
    until_settled(client, "s")

    assert events.outcomes("s").count("committed") == client.info("s").version == 1
    assert "stale" not in events.outcomes("s")
    assert client.read("s").messages[-5:] == during
    stored(server, client, "s").assert_conserved([*before, *during])


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

    assert events.outcomes("s").count("committed") == 1
    assert client.info("s").version == 1
    assert client.read("s").messages == after_other
    stored(server, client, "s").assert_conserved(pushed)


def test_a_session_forgotten_during_its_compaction_stays_forgotten(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: NewWorker,
) -> None:
    keys = keys_of(client, "s")

    with frozen_at_commit(
        client, store, front, new_worker, long_turns(), "stale", "unknown"
    ) as events:
        assert client.forget("s")
    wait_until(lambda: server.llen("compact") == server.llen("summarize") == 0)

    assert "committed" not in events.outcomes("s")
    assert server.exists(*keys.owned) == 0
    assert server.zscore(keys.due, "s") is None
    assert server.zscore(keys.backlog, "s") is None
    with pytest.raises(UnknownSession):
        client.read("s")


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
