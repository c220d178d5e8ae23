"""The tour's own server, and one worker on it; pytest gives them to the tests by name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.processes import WorkerProcess
from turnmill import ContextClient
from turnmill.embedded_redis import EmbeddedRedis


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A redis-server."""
    binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
    folder = tmp_path_factory.mktemp("tour")
    with EmbeddedRedis(folder, durable=False, binary=binary) as running:
        yield running


@pytest.fixture(scope="module")
def worker(
    server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """What `celery -A turnmill_worker.app worker` starts."""
    with WorkerProcess(server.url, tmp_path_factory.mktemp("worker")) as running:
        yield running


@pytest.fixture
def client(server: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """What an agent holds; each test has a namespace of its own."""
    with ContextClient(server.url, namespace=namespace) as made:
        yield made
