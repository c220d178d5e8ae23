"""A broker and state store of its own, on which no worker runs unless a test starts one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from turnmill import ContextClient
from turnmill.embedded_redis import EmbeddedRedis


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A server that is state store and broker."""
    binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedRedis(folder, durable=False, binary=binary) as server:
        yield server


@pytest.fixture
def messages(broker: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A connection to look at the queues, empty before and after."""
    with redis.Redis.from_url(broker.url) as made:
        yield made
        made.flushall()


@pytest.fixture
def hinting(broker: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client that publishes its hints to the broker."""
    with ContextClient(broker.url, namespace=namespace) as made:
        yield made
