"""Connections are shared by many callers at once, and no caller ever gets another's reply."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from turnmill.client._async import trips as waiting
from turnmill.client._async.trips import Trips
from turnmill.connection import transport
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.transport import Connections
from turnmill.connection.urls import store_url


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


def test_who_waits_too_long_for_a_connection_is_told(redis_server: EmbeddedRedis) -> None:
    with _client(redis_server, max_connections=1, wait_s=0.01) as client:
        taken = client.connection_pool.get_connection()

        with pytest.raises(redis.ConnectionError, match="No connection available"):
            client.ping()

        client.connection_pool.release(taken)
        assert client.ping()


def test_a_connection_the_server_closed_meanwhile_is_replaced(
    own_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LOOK_AFTER_S", 0.0)
    with (
        _client(own_server, max_connections=1) as client,
        redis.Redis.from_url(own_server.url) as other,
    ):
        first = client.client_id()

        other.client_kill_filter(_id=str(first))

        assert client.client_id() != first


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


def test_a_refused_command_costs_no_connection(redis_server: EmbeddedRedis) -> None:
    with _client(redis_server, max_connections=1) as client:
        first = client.client_id()

        with pytest.raises(redis.ResponseError):
            client.execute_command("NONSENSE")

        assert client.client_id() == first


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


@pytest.mark.parametrize("rounds", range(6))
def test_a_call_that_is_cancelled_as_its_turn_comes_goes_no_further(
    redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(waiting, "MAX_CONNECTIONS", 1)

    async def cancelled() -> list[Any]:
        trips = Trips(store_url(redis_server.url), 10.0)
        taken = await trips._pool.get_connection()
        call = asyncio.create_task(trips.trip([("PING",)]))
        await asyncio.sleep(0.01)
        await trips._pool.release(taken)
        for _ in range(rounds):
            await asyncio.sleep(0)
        if call.cancel():  # else it was quicker
            with pytest.raises(asyncio.CancelledError):
                await call
        found = await trips.trip([("ECHO", "next")])
        await trips.close()
        return found

    assert asyncio.run(cancelled()) == [b"next"]


def test_a_reply_that_does_not_come_ends_the_trip_in_time(redis_server: EmbeddedRedis) -> None:
    async def in_vain() -> list[Any]:
        trips = Trips(store_url(redis_server.url), 1.0)
        with pytest.raises(redis.TimeoutError, match="no reply in time"):
            await asyncio.wait_for(trips.trip([("BLPOP", "nothing", 0)]), 5.0)
        found = await trips.trip([("ECHO", "next")])
        await trips.close()
        return found

    assert asyncio.run(in_vain()) == [b"next"]


def test_a_task_that_waits_too_long_for_a_connection_is_told(
    redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_CONNECTIONS", 1)

    async def too_long() -> None:
        trips = Trips(store_url(redis_server.url), 10.0)
        pool = trips._pool
        taken = await pool.get_connection()
        pool._wait_s = 0.01  # of the wait alone: a connection takes longer on a busy machine
        with pytest.raises(redis.ConnectionError, match="No connection available"):
            await pool.get_connection()
        await pool.release(taken)
        assert await trips.trip([("PING",)])
        await trips.close()

    asyncio.run(too_long())
