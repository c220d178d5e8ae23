"""Servers that fail, fill up or answer late, and the connections to them."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from tests.redis.conftest import Connect, Surface
from turnmill import Policy, StoreFull, StoreUnavailable
from turnmill.client._async import trips as waiting
from turnmill.client._async.trips import Trips
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.connection.transport import Connections
from turnmill.connection.urls import store_url

# --- A server that is gone, silent, or full: a typed error in time, and work goes on afterwards.


HI = {"role": "user", "content": "hi"}
TIMEOUT_S = 0.4
IN_TIME_S = 3.0


EVERY_CALL: list[Callable[[Surface], Any]] = [
    lambda client: client.open("s", Policy()),
    lambda client: client.push("s", HI),
    lambda client: client.push_many([("s", HI)] * 3),
    lambda client: client.read("s"),
    lambda client: client.info("s"),
    lambda client: client.forget("s"),
    lambda client: client.sessions(),
    lambda client: client.sessions_page(),
]


CALL_NAMES = ["open", "push", "push_many", "read", "info", "forget", "sessions", "page"]


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

    assert time.monotonic() - started < IN_TIME_S


@pytest.mark.parametrize("call", EVERY_CALL, ids=CALL_NAMES)
def test_a_server_that_never_answers_is_a_typed_error_in_time(
    connect: Connect, black_hole: str, call: Callable[[Surface], Any]
) -> None:
    client = connect(black_hole, timeout_s=TIMEOUT_S)
    started = time.monotonic()

    with pytest.raises(StoreUnavailable):
        call(client)

    assert time.monotonic() - started < IN_TIME_S


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


# --- Connections are shared by many callers at once, and no caller ever gets another's reply.


def _client(server: EmbeddedRedis, **options: Any) -> redis.Redis:
    return redis.Redis.from_pool(Connections.from_url(server.url, **options))


def _own_replies(client: redis.Redis, caller: int) -> bool:
    words = [f"{caller}-{at}".encode() for at in range(50)]
    return [client.echo(word) for word in words] == words


def test_more_callers_than_connections_wait_and_each_gets_its_own_replies(
    redis_server: EmbeddedRedis,
) -> None:
    with _client(redis_server, max_connections=3, wait_s=30) as client:
        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(lambda caller: _own_replies(client, caller), range(32)))

        assert len(client.connection_pool._available_connections) <= 3


def test_a_reply_that_nobody_read_is_never_taken_for_the_next(redis_server: EmbeddedRedis) -> None:
    with _client(redis_server, max_connections=1) as client:
        pool = client.connection_pool

        def interrupted() -> None:
            connection = pool.get_connection()
            try:
                connection.send_command("ECHO", "late")
                raise KeyboardInterrupt
            finally:
                pool.release(connection)

        with pytest.raises(KeyboardInterrupt):
            interrupted()

        assert client.echo("mine") == b"mine"


def test_a_forked_process_makes_connections_of_its_own(redis_server: EmbeddedRedis) -> None:
    with _client(redis_server, max_connections=1) as client:
        first = client.client_id()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(client.client_id()).encode())
            os._exit(0)
        os.waitpid(child, 0)

        assert int(os.read(reading, 100)) != first
        assert client.client_id() == first


def test_tasks_wait_for_connections_and_each_gets_its_own_replies(
    redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_CONNECTIONS", 3)

    async def own_replies(trips: Trips, caller: int) -> bool:
        words = [f"{caller}-{at}".encode() for at in range(50)]
        together = await trips.trip([("ECHO", word) for word in words])
        return together == [(await trips.trip([("ECHO", word)]))[0] for word in words] == words

    async def all_of_them() -> list[bool]:
        trips = Trips(store_url(redis_server.url), 30.0)
        done = await asyncio.gather(*(own_replies(trips, caller) for caller in range(32)))
        await trips.close()
        return done

    assert all(asyncio.run(all_of_them()))


def test_a_cancelled_call_leaves_its_reply_to_nobody(redis_server: EmbeddedRedis) -> None:
    async def cancelled() -> list[Any]:
        trips = Trips(store_url(redis_server.url), 5.0)
        await trips.trip([("PING",)])
        waits = asyncio.create_task(trips.trip([("ECHO", "late"), ("BLPOP", "nothing", 1)]))
        await asyncio.sleep(0.05)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        found = [(await trips.trip([("ECHO", f"{at}")]))[0] for at in range(10)]
        await trips.close()
        return found

    assert asyncio.run(cancelled()) == [f"{at}".encode() for at in range(10)]


def test_a_reply_that_does_not_come_ends_the_trip_in_time(redis_server: EmbeddedRedis) -> None:
    async def in_vain() -> list[Any]:
        trips = Trips(store_url(redis_server.url), 1.0)
        with pytest.raises(redis.TimeoutError, match="no reply in time"):
            await asyncio.wait_for(trips.trip([("BLPOP", "nothing", 0)]), 5.0)
        found = await trips.trip([("ECHO", "next")])
        await trips.close()
        return found

    assert asyncio.run(in_vain()) == [b"next"]
