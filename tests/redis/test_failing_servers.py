"""A server that is gone, silent, or full: a typed error in time, and work goes on afterwards."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.redis.conftest import Connect, Surface
from turnmill import Policy, StoreFull, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.keys import registry_keys
from turnmill.contract.names import Namespace

HI = {"role": "user", "content": "hi"}
TIMEOUT_S = 1.0

EVERY_CALL: list[Callable[[Surface], Any]] = [
    lambda client: client.open("s", Policy()),
    lambda client: client.push("s", HI),
    lambda client: client.push_many([("s", HI)] * 3),
    lambda client: client.read("s"),
    lambda client: client.info("s"),
    lambda client: client.forget("s"),
    lambda client: client.sessions(),
]
CALL_NAMES = ["open", "push", "push_many", "read", "info", "forget", "sessions"]


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server that accepts connections and never says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        yield f"redis://127.0.0.1:{silent.getsockname()[1]}/0"


@pytest.mark.parametrize("call", EVERY_CALL, ids=CALL_NAMES)
def test_a_refused_connection_is_a_typed_error_in_time(
    connect: Connect, call: Callable[[Surface], Any]
) -> None:
    client = connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=TIMEOUT_S)
    started = time.monotonic()

    with pytest.raises(StoreUnavailable):
        call(client)

    assert time.monotonic() - started < 2 * TIMEOUT_S


@pytest.mark.parametrize("call", EVERY_CALL, ids=CALL_NAMES)
def test_a_server_that_never_answers_is_a_typed_error_in_time(
    connect: Connect, black_hole: str, call: Callable[[Surface], Any]
) -> None:
    client = connect(black_hole, timeout_s=TIMEOUT_S)
    started = time.monotonic()

    with pytest.raises(StoreUnavailable):
        call(client)

    assert time.monotonic() - started < 2 * TIMEOUT_S


def test_a_client_works_again_when_its_server_is_back(
    connect: Connect, own_server: EmbeddedRedis
) -> None:
    client = connect(own_server.url, timeout_s=TIMEOUT_S)
    client.push("s", HI)
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        client.push("s", HI)

    own_server.start()

    assert client.push("s", HI).seq == 1  # a server without a log starts empty


def test_a_namespace_is_registered_again_on_a_server_that_lost_everything(
    connect: Connect, own_server: EmbeddedRedis
) -> None:
    client = connect(own_server.url)
    client.push("s", HI)
    with redis.Redis.from_url(own_server.url) as plain:
        plain.flushall()

        client.push("s", HI)

        assert plain.exists(registry_keys(Namespace("default")).registered)


@pytest.mark.parametrize("call", EVERY_CALL[:3], ids=CALL_NAMES[:3])
def test_a_full_server_is_a_typed_error(
    connect: Connect, own_server: EmbeddedRedis, call: Callable[[Surface], Any]
) -> None:
    client = connect(own_server.url)
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

    with pytest.raises(StoreFull):
        call(client)

    assert client.sessions() == []


def test_a_full_server_still_answers_reads(connect: Connect, own_server: EmbeddedRedis) -> None:
    client = connect(own_server.url)
    client.push("s", HI)
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

    read = client.read("s")

    assert read.messages == [HI]
    assert client.info("s").last_seq == 1


def test_a_full_server_can_be_emptied_by_forgetting(
    connect: Connect, own_server: EmbeddedRedis
) -> None:
    client = connect(own_server.url)
    client.push("s", HI)
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

    assert client.forget("s")


def test_an_unavailable_store_never_shows_what_was_pushed(connect: Connect) -> None:
    client = connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=TIMEOUT_S)

    with pytest.raises(StoreUnavailable) as failed:
        client.push("s", {"role": "user", "content": "my secret"})

    assert "my secret" not in str(failed.value)
