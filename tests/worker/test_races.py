"""Two workers, one session: the lease saves work, the version keeps the outcome right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.chaos.proxy import Proxy, Trap
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    ROLLING,
    SMALL,
    Events,
    chat,
    keys_of,
    long_turns,
    push_all,
    send,
    settled,
    stored,
)
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import COMPACT, ESTIMATE, SUMMARIZE

pytestmark = pytest.mark.worker


def test_two_workers_commit_each_version_once(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    sessions = {f"s{n}": chat(120, topic=f"parcel of s{n}") for n in range(8)}
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
            wait_until(lambda: settled(client, session, turns=120))  # noqa: B023
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


def test_a_session_in_work_is_left_alone_and_says_leased(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    commit = front.set(Trap("commit", "freeze"))
    for name in ("one", "two"):
        new_worker(name, env={"TURNMILL_REDIS_URL": front.url})
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", long_turns())
        assert commit.sprung.wait(180)
        try:
            assert server.exists(keys_of(client, "s").lease)
            send(store.url, COMPACT, client.namespace, "s")
            wait_until(lambda: "leased" in events.outcomes("s"))
        finally:
            commit.released.set()

        wait_until(lambda: "committed" in events.outcomes("s"), within_s=60)
        outcomes = events.outcomes("s")
        assert "leased" in outcomes
        assert outcomes.index("leased") < outcomes.index("committed")
        assert client.info("s").version == 1


def test_turns_pushed_during_a_compaction_are_kept_and_do_not_invalidate_it(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    before, during = long_turns(), chat(5)
    commit = front.set(Trap("commit", "freeze"))
    new_worker("one", env={"TURNMILL_REDIS_URL": front.url})
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", before)
        assert commit.sprung.wait(180)
        try:
            push_all(client, "s", during)
            version_while_pushing = client.info("s").version
        finally:
            commit.released.set()

        wait_until(lambda: settled(client, "s", turns=11), within_s=60)
        assert version_while_pushing == 0
        assert events.outcomes("s").count("committed") == client.info("s").version == 1
        assert "stale" not in events.outcomes("s")
    assert client.read("s").messages[-5:] == during
    stored(server, client, "s").assert_conserved([*before, *during])


def test_a_worker_paused_beyond_its_lease_cannot_commit_over_another(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    pushed = chat(100)
    commit = front.set(Trap("commit", "freeze"))
    new_worker("paused", env={"TURNMILL_REDIS_URL": front.url})
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", pushed)
        assert commit.sprung.wait(180)
        try:
            new_worker("other")
            wait_until(lambda: settled(client, "s", turns=len(pushed)), within_s=50)
            after_other = client.read("s").messages
        finally:
            commit.released.set()

        wait_until(lambda: "stale" in events.outcomes("s"), within_s=60)
    assert client.info("s").version == 1
    assert client.read("s").messages == after_other
    stored(server, client, "s").assert_conserved(pushed)


def test_a_summary_hint_delivered_twice_commits_once(
    client: ContextClient,
    store: EmbeddedRedis,
    server: redis.Redis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    pushed = chat(120)
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", pushed)
        new_worker("one")
        wait_until(lambda: settled(client, "s", turns=120))
        version = client.info("s").version

        for _ in range(3):
            send(store.url, SUMMARIZE, client.namespace, "s")
        wait_until(lambda: events.outcomes("s").count("skipped") >= 3)

    assert client.info("s").version == version
    stored(server, client, "s").assert_conserved(pushed)


def test_turns_not_yet_counted_do_not_cost_the_others_their_summary(
    silent: ContextClient,
    store: EmbeddedRedis,
    new_worker: Callable[..., WorkerProcess],
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
