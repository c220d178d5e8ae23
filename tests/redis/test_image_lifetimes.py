"""An image stays as long as something shows it, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.redis.conftest import Connect, Surface, Worker
from tests.redis.test_images import TEXT, blob_keys, holders
from turnmill import ContextClient, Policy, SilentWaker
from turnmill._sync.connection import Connection
from turnmill.commands import Command
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.store.outgoing import RedisOutgoing, blobs, hold, release

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=1500)
MINUTE_MS = 60_000


def neighbours(count: int) -> list[str]:
    """Names of sessions of one shard."""
    names = (f"agent-{n}" for n in range(100_000))
    return [name for name in names if shard_of(SessionId(name)) == 7][:count]


def drain(redis_client: redis.Redis, worker: Worker, session: str) -> None:
    """Take everything that left the log out of Redis, as if it had been archived."""
    outgoing = RedisOutgoing(redis_client)
    while drained := outgoing.next_drains([worker.ref(session)], turns=100, size=2**20):
        outgoing.trim(drained)


def test_an_image_fifty_turns_of_five_sessions_show_is_there_until_the_last_is_forgotten(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    names = neighbours(5)
    either.push_many((names[n % 5], showing(png())) for n in range(50))
    [key] = blob_keys(redis_client, namespace)
    assert holders(redis_client, key) == set(names)

    for name in names[:-1]:
        assert either.forget(name).keys_left == 0
        assert redis_client.get(key) == png()
    either.forget(names[-1])

    assert blob_keys(redis_client, namespace) == []


def test_an_image_lives_as_long_as_its_session(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.open("s", Policy(ttl_s=60))
    client.push("s", showing(png()))

    [key] = blob_keys(redis_client, namespace)
    session = redis_client.pttl(worker.keys("s").meta)
    assert abs(redis_client.pttl(f"{key.decode()}:held") - session) < 1000
    assert 0 < session <= MINUTE_MS < redis_client.pttl(key) <= 5 * MINUTE_MS


def test_an_image_of_two_sessions_lives_as_long_as_the_longer(
    client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    long, short = neighbours(2)
    client.open(long, Policy(ttl_s=6000))
    client.open(short, Policy(ttl_s=600))
    client.push(long, showing(png()))
    client.push(short, showing(png()))
    client.push(short, showing(png()))

    [key] = blob_keys(redis_client, namespace)
    assert 99 * MINUTE_MS < redis_client.pttl(key) <= 100 * MINUTE_MS
    assert 99 * MINUTE_MS < redis_client.pttl(f"{key.decode()}:held") <= 100 * MINUTE_MS


def test_a_push_without_images_renews_those_the_session_holds(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.open("s", Policy(ttl_s=60))
    client.push("s", showing(png(), png(1)))
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys("s").meta, "expires_at", soon)
    for key in redis_client.keys(f"turnmill:{{{namespace}/*"):
        redis_client.pexpireat(key, soon)

    client.push("s", TEXT)

    images = redis_client.keys(f"turnmill:{{{namespace}/*}}:blob:*")
    assert len(images) == 4
    assert all(redis_client.pttl(key) > 55_000 for key in images)


def test_a_longer_lifetime_of_the_session_counts_for_its_images_at_once(
    client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    client.open("s", Policy(ttl_s=60))
    client.push("s", showing(png()))

    client.open("s", Policy(ttl_s=600))

    keys = redis_client.keys(f"turnmill:{{{namespace}/*}}:blob:*")
    assert len(keys) == 2
    assert all(redis_client.pttl(key) > 9 * MINUTE_MS for key in keys)


def test_images_go_once_their_turns_are_in_the_archive(
    either: Surface, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", showing(png(1))), *[("s", LONG)] * 30, ("s", showing(png(2)))])
    assert worker.work("s") == "committed"
    assert len(blob_keys(redis_client, namespace)) == 2

    drain(redis_client, worker, "s")

    assert len(blob_keys(redis_client, namespace)) == 1
    assert either.read("s").messages[-1] == showing(png(2))


def test_an_image_another_session_shows_stays(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    one, other = neighbours(2)
    client.open(one, SMALL)
    client.push(other, showing(png(1)))
    client.push_many([(one, showing(png(1))), *[(one, LONG)] * 30])
    worker.work(one)

    drain(redis_client, worker, one)

    [key] = blob_keys(redis_client, namespace)
    assert holders(redis_client, key) == {other}


def test_a_pinned_image_stays_in_the_context(
    connect: Connect,
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    worker: Worker,
    namespace: str,
) -> None:
    client = connect(redis_server.url, namespace=namespace)
    client.open("s", SMALL)
    client.push("s", {"messages": [showing(png(1))], "pinned": True})
    client.push_many([("s", LONG)] * 30)
    assert worker.work("s") == "committed"

    drain(redis_client, worker, "s")

    assert showing(png(1)) in connect(redis_server.url, namespace=namespace).read("s").messages


def test_a_pinned_image_stays_while_a_checkpoint_shows_it(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.open("s", SMALL.model_copy(update={"checkpoint_interval": 0}))
    client.push("s", {"messages": [showing(png(1))], "pinned": True})
    client.push_many([("s", LONG)] * 30)
    worker.work("s")
    client.checkpoint("s", name="before")
    redis_client.delete(worker.keys("s").context)

    drain(redis_client, worker, "s")
    kept = len(blob_keys(redis_client, namespace))
    redis_client.delete(worker.keys("s").named)
    released = release(redis_client, worker.ref("s"))

    assert (kept, released) == (1, 1)
    assert blob_keys(redis_client, namespace) == []


def test_images_of_a_cleared_session_go_with_its_turns(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.push("s", showing(png()))
    client.clear("s")
    assert len(blob_keys(redis_client, namespace)) == 1

    drain(redis_client, worker, "s")

    assert blob_keys(redis_client, namespace) == []


def test_an_image_let_go_is_stored_again_when_it_is_shown_again(
    either: Surface, redis_client: redis.Redis, worker: Worker
) -> None:
    either.push("s", showing(png()))
    either.clear("s")
    drain(redis_client, worker, "s")

    either.push("s", showing(png()))

    assert either.read("s").messages == [showing(png())]


def test_a_worker_gets_images_with_their_types_and_leaves_out_unknown_ones(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.push("s", showing(png()))
    sha256 = blob_keys(redis_client, namespace)[0].decode().rpartition(":")[2]

    [found] = blobs(redis_client, worker.ref("s"), ["0f" * 32, sha256])

    assert (found.sha256, found.media_type, found.data) == (sha256, "image/png", png())


def test_an_image_can_be_put_back(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.push("s", showing(png()))
    [key] = blob_keys(redis_client, namespace)
    found = blobs(redis_client, worker.ref("s"), [key.decode().rpartition(":")[2]])
    epoch: Any = redis_client.hget(worker.keys("s").meta, "epoch")
    redis_client.delete(key, f"{key.decode()}:held")

    assert hold(redis_client, worker.ref("s"), epoch.decode(), found)

    assert redis_client.get(key) == png()
    assert abs(redis_client.pttl(key) - redis_client.pttl(worker.keys("s").meta)) < 1000


def test_nothing_is_put_back_for_a_session_that_was_forgotten(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.push("s", showing(png()))
    [key] = blob_keys(redis_client, namespace)
    found = blobs(redis_client, worker.ref("s"), [key.decode().rpartition(":")[2]])
    epoch: Any = redis_client.hget(worker.keys("s").meta, "epoch")
    client.forget("s")

    assert not hold(redis_client, worker.ref("s"), epoch.decode(), found)

    assert blob_keys(redis_client, namespace) == []


class Interrupted(Connection):
    """A client's connection between whose two trips of a read something happens, once."""

    meanwhile: Callable[[], object] | None = None

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        if commands[0][0] == "GET" and self.meanwhile:
            self.meanwhile()
            self.meanwhile = None
        return super().pipeline(commands, raise_on_error=raise_on_error)


def test_images_let_go_between_the_two_trips_of_a_read_are_not_missed(
    client: ContextClient,
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    worker: Worker,
    namespace: str,
) -> None:
    def clear() -> None:
        client.clear("s")
        drain(redis_client, worker, "s")

    client.push("s", showing(png()))
    with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as reading:
        reading._redis = Interrupted(redis_server.url, 5.0, None, reading._commands.registration)
        reading._redis.meanwhile = clear

        read = reading.read("s")

    assert read.messages == []


@pytest.mark.parametrize("images", [0, 1])
def test_forgetting_a_full_servers_session_frees_its_images(
    connect: Connect, own_server: EmbeddedRedis, images: int
) -> None:
    client = connect(own_server.url)
    client.push("s", showing(*[png()] * images))
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

        assert client.forget("s").keys_left == 0

        assert plain.keys("*:blob:*") == []
