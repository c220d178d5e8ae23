"""A real redis-server for all tests, and a namespace of its own for each."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import hypothesis
import pytest
import redis

from turnmill import ContextClient, SilentWaker
from turnmill.embedded_redis import EmbeddedRedis

# The same examples in every run, so that red means a change; TURNMILL_EXPLORE=1 looks for new ones.
hypothesis.settings.register_profile("repeat", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("explore" if os.environ.get("TURNMILL_EXPLORE") else "repeat")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """One server for the run; TURNMILL_TEST_REDIS_SERVER names another binary."""
    binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
    folder = tmp_path_factory.mktemp("redis")
    with EmbeddedRedis(folder, durable=False, binary=binary) as server:
        yield server


@pytest.fixture
def redis_client(redis_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A plain client, to look at what is stored."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def namespace() -> str:
    """A namespace no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(redis_server: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client whose hints go nowhere: tests run the pipeline themselves, or let the sweep."""
    with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as made:
        yield made
