"""Namespaces do not meet; policies change and sessions are forgotten while workers are at it."""

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
    settled,
    stored,
)
from turnmill import ContextClient, Policy, UnknownSession
from turnmill.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.worker


@pytest.mark.usefixtures("worker")
def test_two_namespaces_do_not_see_each_other(
    client: ContextClient, store: EmbeddedRedis, server: redis.Redis
) -> None:
    ours, theirs = chat(120, topic="our parcel"), chat(90, topic="their letter")
    with ContextClient(store.url, namespace=f"{client.namespace}-other") as other:
        for each, turns in ((client, ours), (other, theirs)):
            each.open("same-name", SMALL)
            push_all(each, "same-name", turns)
        wait_until(lambda: settled(client, "same-name", turns=120))
        wait_until(lambda: settled(other, "same-name", turns=90))

        assert "letter" not in str(client.read("same-name").messages)
        assert "parcel" not in str(other.read("same-name").messages)
        stored(server, client, "same-name").assert_conserved(ours)
        stored(server, other, "same-name").assert_conserved(theirs)
        assert other.forget("same-name")
        assert other.sessions() == []
        assert client.sessions() == ["same-name"]
        assert client.info("same-name").last_seq == 120


@pytest.mark.usefixtures("worker")
def test_a_narrower_policy_takes_effect_without_another_push(client: ContextClient) -> None:
    client.open("s", Policy(max_tokens=16_000))
    push_all(client, "s", chat(120))
    wait_until(lambda: client.info("s").counted_seq == 120)
    assert client.info("s").version == 0

    client.open("s", SMALL)

    wait_until(lambda: settled(client, "s", turns=120))
    assert client.info("s").version > 0
    assert client.info("s").limits.hard == SMALL.hard_limit


@pytest.mark.usefixtures("worker")
def test_a_policy_with_another_vocabulary_has_all_turns_counted_again(
    client: ContextClient,
) -> None:
    client.open("s", Policy(max_tokens=100_000))
    push_all(client, "s", [{"role": "user", "content": "日本語のとても長い文 " * 20}] * 10)
    wait_until(lambda: client.info("s").counted_seq == 10)
    before = client.info("s").usage.tail

    client.open("s", Policy(max_tokens=100_000, encoding="cl100k_base"))

    wait_until(lambda: client.info("s").usage.tail != before, what="counts by the other basis")
    assert client.info("s").usage.tail > before
    # The turns are counted again first, and all settled with the next look.
    wait_until(lambda: client.read("s").exact, what="an exact read")


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
