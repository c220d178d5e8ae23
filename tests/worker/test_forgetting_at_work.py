"""A session is forgotten while a worker is about to commit it; no other worker may take its job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.chaos.proxy import Proxy, Trap
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, Events, chat, keys_of, long_turns, push_all
from turnmill import ContextClient, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


def test_a_session_forgotten_during_its_compaction_stays_forgotten(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    commit = front.set(Trap("commit", "freeze"))
    new_worker("one", env={"TURNMILL_REDIS_URL": front.url})
    keys = keys_of(client, "s")
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", long_turns())
        assert commit.sprung.wait(180)
        try:
            assert client.forget("s")
        finally:
            commit.released.set()

        wait_until(lambda: {"stale", "unknown"} & {*events.outcomes("s")}, within_s=60)
        wait_until(lambda: server.llen("compact") == server.llen("summarize") == 0)
    assert server.exists(*keys.owned) == 0
    assert server.zscore(keys.due, "s") is None
    assert server.zscore(keys.backlog, "s") is None
    with pytest.raises(UnknownSession):
        client.read("s")


def test_a_new_session_of_a_forgotten_name_gets_nothing_of_the_old_one(
    client: ContextClient,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    commit = front.set(Trap("commit", "freeze"))
    new_worker("one", env={"TURNMILL_REDIS_URL": front.url})
    with Events(store.url) as events:
        client.open("s", ROLLING)
        push_all(client, "s", long_turns())
        assert commit.sprung.wait(180)
        try:
            client.forget("s")
            push_all(client, "s", chat(3, topic="letter"))
        finally:
            commit.released.set()

        wait_until(lambda: "stale" in events.outcomes("s"), within_s=60)
        wait_until(lambda: client.info("s").counted_seq == 3)
    assert client.read("s").messages == chat(3, topic="letter")
    assert client.info("s").version == 0
