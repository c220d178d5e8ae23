"""Every key of a session has a lifetime; a push renews it; forgetting leaves nothing."""

from __future__ import annotations

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import ContextClient, Policy, UnknownSession
from turnmill.contract.keys import registry_keys
from turnmill.contract.names import Namespace

LONG = {"role": "user", "content": "word " * 60}
MINUTE_MS = 60_000


def lifetimes(redis_client: redis.Redis, worker: Worker, session: str) -> dict[str, int]:
    """Milliseconds each key of the session that exists has left; -1 is for ever."""
    keys = {key: int(redis_client.pttl(key)) for key in worker.keys(session).owned}
    return {key: left for key, left in keys.items() if left != -2}


def test_the_keys_of_a_session_opened_and_pushed_to_at_once_have_a_lifetime(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(ttl_s=60))
    client.push("s", LONG)

    left = lifetimes(redis_client, worker, "s")

    assert len(left) == 3
    assert all(0 < each <= MINUTE_MS for each in left.values())


def test_every_key_of_a_compacted_session_has_a_lifetime(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)

    outcome = worker.work("s")

    left = lifetimes(redis_client, worker, "s")
    assert outcome == "committed"
    assert len(left) == 10
    assert all(0 < each <= MINUTE_MS for each in left.values())


def test_a_push_renews_the_lifetime_of_every_key(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)
    worker.work("s")
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys("s").meta, "expires_at", soon)
    for key in worker.keys("s").owned:
        redis_client.pexpireat(key, soon)

    client.push("s", LONG)

    assert all(left > 55_000 for left in lifetimes(redis_client, worker, "s").values())


def test_a_shorter_lifetime_counts_at_once(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push("s", LONG)

    client.open("s", Policy(ttl_s=60))

    assert all(0 < left <= MINUTE_MS for left in lifetimes(redis_client, worker, "s").values())


def test_a_forgotten_session_leaves_no_key(
    either: Surface, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    either.push("s", LONG)

    forgotten = either.forget("s")

    assert forgotten
    assert forgotten.keys_left == 0
    # What is left says that the archive must forget it, too; the shard's hint ends in a second.
    registered = registry_keys(Namespace(namespace)).registered.encode()
    passing = {worker.keys("s").hinted.encode(), registered}
    left = set(redis_client.keys(f"*{namespace}*")) - passing
    assert left == {worker.keys("s").forgotten.encode()}
    assert redis_client.exists(registered), "workers end it when they see that nothing is left"


def test_forgetting_an_unknown_session_says_there_was_none(either: Surface) -> None:
    assert not either.forget("s")


def test_a_forgotten_session_is_unknown(either: Surface) -> None:
    either.push("s", LONG)
    either.forget("s")

    with pytest.raises(UnknownSession):
        either.read("s")
    with pytest.raises(UnknownSession):
        either.info("s")


def test_a_name_used_again_starts_from_one(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    either.forget("s")

    pushed = either.push("s", LONG)

    assert (pushed.seq, either.read("s").version) == (1, 0)


def test_an_expired_session_that_is_pushed_to_again_is_listed(
    either: Surface, redis_client: redis.Redis, worker: Worker
) -> None:
    either.push("s", LONG)
    redis_client.delete(*worker.keys("s").owned)
    redis_client.zrem(worker.keys("s").index, "s")

    either.push("s", LONG)

    assert either.sessions() == ["s"]
