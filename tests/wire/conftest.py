"""The module's server as a broker, on which no worker runs unless a test starts one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture
def messages(store: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A connection to look at the queues, empty before and after."""
    with redis.Redis.from_url(store.url) as made:
        yield made
        made.flushall()


@pytest.fixture
def hinting(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client that publishes its hints."""
    with ContextClient(store.url, namespace=namespace) as made:
        yield made
