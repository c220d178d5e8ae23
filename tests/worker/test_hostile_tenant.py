"""A tenant that damages its own namespace, and the list of all, stops no other: real workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import chat, push_all
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import (
    NAMESPACES,
    SHARDS,
    ShardKeys,
    registered_channel,
    registry_keys,
    shard_keys,
)
from turnmill.contract.names import Namespace

pytestmark = pytest.mark.worker

HOSTILE = Namespace("hostile")
BAD: tuple[Callable[[redis.Redis, str], object], ...] = (
    lambda server, key: server.set(key, "x"),
    lambda server, key: server.zadd(key, {b"\xff\xfe": 1, b"no name": 2, b"{}": 3}),
    lambda server, key: server.hset(key, "x", "y"),
)


def _damage_all(server: redis.Redis) -> None:
    """Write what no client writes into every list of the hostile namespace, and announce it."""
    for shard in range(SHARDS):
        for at, name in enumerate(ShardKeys.__slots__):
            BAD[(shard + at) % len(BAD)](server, getattr(shard_keys(HOSTILE, shard), name))
    server.set(registry_keys(HOSTILE).registered, 1)
    server.publish(registered_channel(HOSTILE), 1)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_lost_hints_of_others_are_repaired_beside_a_hostile_namespace(
    store: EmbeddedRedis,
    server: redis.Redis,
    namespace: str,
    new_worker: Callable[..., WorkerProcess],
    pool: str,
) -> None:
    server.flushall()
    _damage_all(server)
    worker = new_worker(pool, pool=pool, concurrency=2)
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client:
        push_all(client, "s", chat(5))
        wait_until(lambda: client.info("s").counted_seq == 5, what="the first turns counted")

        # Whoever may write to it takes the list of namespaces away.
        server.delete(NAMESPACES)
        server.set(NAMESPACES, "x")
        push_all(client, "later", chat(5))
        wait_until(lambda: client.info("later").counted_seq == 5, what="the others counted")

    wait_until(lambda: "namespace damaged" in worker.output(), what="the hostile one told of")
    assert "sweep failed" not in worker.output()
    assert worker.output().count("namespace damaged") <= 2


def test_a_namespace_that_pushed_while_no_worker_ran_is_found(
    store: EmbeddedRedis,
    server: redis.Redis,
    namespace: str,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    server.flushall()
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client:
        push_all(client, "s", chat(5))
        server.delete(NAMESPACES)

        new_worker("late")

        wait_until(lambda: client.info("s").counted_seq == 5, what="the turns counted")
