"""Tenants in a running system: they do not meet, and each has what its quotas allow."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import (
    SMALL,
    NewServer,
    NewWorker,
    archive_in,
    chat,
    push_all,
    stored,
    until_settled,
)
from turnmill import ContextClient, QuotaExceeded
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

HELLO = {"role": "user", "content": "Hello."}


@pytest.fixture
def store(new_server: NewServer) -> EmbeddedRedis:
    """One per test: a worker beside it that knows no quotas would sweep, and measure nothing."""
    return new_server()


def test_a_tenant_beyond_its_quota_is_told_and_others_go_on(
    client: ContextClient, store: EmbeddedRedis, new_worker: NewWorker, tmp_path: Path
) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text(f"[namespaces.{client.namespace}]\nsessions = 3\nmemories = 1\n")
    archive = archive_in(tmp_path)
    worker = new_worker("measures", env={**archive, "TURNMILL_QUOTAS_FILE": str(file)})
    refused: list[QuotaExceeded] = []

    def takes_a_session() -> bool:
        with ContextClient(store.url, namespace=client.namespace) as agent:
            try:
                agent.push(f"s{len(client.sessions())}", HELLO)
            except QuotaExceeded as error:
                refused.append(error)
                return False
        return True

    wait_until(lambda: not takes_a_session(), within_s=60)
    assert refused[0].quota == "sessions"
    # A session may have come between the count and what it led to.
    assert 3 == refused[0].allowed <= refused[0].used <= len(client.sessions())
    wait_until(lambda: "quota used up" in worker.output())
    with ContextClient(store.url, namespace=f"{client.namespace}-other") as other:
        for at in range(10):
            assert other.push(f"s{at}", HELLO).seq == 1

    first = client.remember("Anna likes parcels.")
    assert client.remember("Anna likes parcels.") == first
    with pytest.raises(QuotaExceeded, match="1 of 1 memories") as told:
        client.remember("Berta likes letters.")
    assert (told.value.quota, told.value.used, told.value.allowed) == ("memories", 1, 1)

    file.write_text(f"[namespaces.{client.namespace}]\nsessions = 1000\n")
    wait_until(takes_a_session, within_s=30)
    assert client.remember("Berta likes letters.") != first


def test_two_namespaces_do_not_see_each_other(
    client: ContextClient, store: EmbeddedRedis, server: redis.Redis, new_worker: NewWorker
) -> None:
    new_worker("both")
    ours, theirs = chat(120, topic="our parcel"), chat(90, topic="their letter")
    with ContextClient(store.url, namespace=f"{client.namespace}-other") as other:
        for each, turns in ((client, ours), (other, theirs)):
            each.open("same-name", SMALL)
            push_all(each, "same-name", turns)
        until_settled(client, "same-name", turns=120)
        until_settled(other, "same-name", turns=90)

        assert "letter" not in str(client.read("same-name").messages)
        assert "parcel" not in str(other.read("same-name").messages)
        stored(server, client, "same-name").assert_conserved(ours)
        stored(server, other, "same-name").assert_conserved(theirs)
        assert other.forget("same-name")
        assert other.sessions() == []
        assert client.sessions() == ["same-name"]
        assert client.info("same-name").last_seq == 120
