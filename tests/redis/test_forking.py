"""Forks in Redis: encrypted as their parents are, and without what is erased meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy, SessionBusy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.store_client import store_client
from turnmill.contract.erasure import erasing
from turnmill.contract.sealing import Cipher
from turnmill_worker.ports.values import Begun, SessionInRedis
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.forking import Forking
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

WORDS = "the ember falcon opens the door"


def _encrypt(data: bytes, context: bytes) -> bytes:
    return bytes(one ^ 0x55 for one in context + b"|" + data)


def _decrypt(data: bytes, context: bytes) -> bytes:
    found, _, plain = bytes(one ^ 0x55 for one in data).partition(b"|")
    assert found == context
    return plain


BOUND = Cipher(encrypt=_encrypt, decrypt=_decrypt)
"""A cipher that a test can look through, and that knows where content belongs."""


class _Stopped(RedisStates):
    """A worker that is stopped before it begins a fork."""

    meanwhile: Callable[[], object] | None = None

    def fork(self, past: SessionInRedis, begun: Begun) -> bool:
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return super().fork(past, begun)


@pytest.fixture
def sealed(redis_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A worker's client with a cipher."""
    with store_client(redis_server.url, 5.0, cipher=BOUND) as made:
        yield made


def test_a_fork_is_encrypted_as_its_parent_is(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, sealed: redis.Redis, namespace: str
) -> None:
    waker = SilentWaker()
    with ContextClient(redis_server.url, namespace=namespace, broker=waker, cipher=BOUND) as client:
        worker = Worker(sealed, namespace)
        client.open("s", Policy(max_tokens=512), f"You know: {WORDS}")
        for at in range(24):
            client.push("s", {"role": "user", "content": f"{WORDS} {at} " + "word " * 30})
        assert worker.work("s") == "committed"
        client.checkpoint("s", WORDS, name="here")
        forking = Forking(RedisStates(sealed), None, counter_for)

        forking.fork(worker.ref("s"), worker.ref("other"), None)

        assert client.read("other").messages == client.read("s").messages
        kept = [(each.id, each.message) for each in client.checkpoints("other")]
        assert kept == [(each.id, each.message) for each in client.checkpoints("s")]
        assert ("here", WORDS) in kept
        stored = [redis_client.dump(key) or b"" for key in redis_client.keys("*s:other:*")]
        assert stored
        assert not any(WORDS.encode() in body for body in stored)


def test_what_is_erased_while_a_fork_begins_is_not_in_it(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    for text in ("first", WORDS, "last"):
        client.push("s", {"role": "user", "content": text})
    states = _Stopped(redis_client)
    erasing_of = Erasing(states, None, counter_for, worker.hints)
    body = erasing((), WORDS, None, repeats=False, by="", dry_run=False)

    def meanwhile() -> None:
        with pytest.raises(SessionBusy, match="being forked"):
            erasing_of.erase(worker.ref("s"), body)

    states.meanwhile = meanwhile

    made = Forking(states, None, counter_for).fork(worker.ref("s"), worker.ref("other"), None)
    again = erasing_of.erase(worker.ref("s"), body)

    assert made.seq == 3
    assert WORDS not in str(client.read("other").messages)
    assert not again.turns
