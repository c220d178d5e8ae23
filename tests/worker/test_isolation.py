"""Namespaces do not meet; policies change while workers are at it."""

from __future__ import annotations

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import (
    SMALL,
    chat,
    push_all,
    settled,
    stored,
)
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis

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
