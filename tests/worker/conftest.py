"""Servers, workers and clients of their own for each module: workers here are killed at will."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.chaos.proxy import Proxy
from tests.processes import WorkerProcess
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture(scope="module")
def new_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., EmbeddedRedis]]:
    """Start one more redis-server, ended after the module."""
    made: list[EmbeddedRedis] = []

    def start(*, durable: bool = False) -> EmbeddedRedis:
        binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
        folder = tmp_path_factory.mktemp("server")
        server = EmbeddedRedis(folder, durable=durable, binary=binary).start()
        made.append(server)
        return server

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def client(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client as an agent has it, hints and all."""
    with ContextClient(store.url, namespace=namespace) as made:
        yield made


@pytest.fixture
def silent(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client whose every hint is lost."""
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as made:
        yield made


@pytest.fixture
def server(store: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A plain connection, to look at what is stored."""
    with redis.Redis.from_url(store.url) as made:
        yield made


@pytest.fixture
def new_worker(store: EmbeddedRedis, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start one more worker on the module's store, ended after the test."""
    made: list[WorkerProcess] = []

    def start(name: str, **options: object) -> WorkerProcess:
        worker = WorkerProcess(store.url, tmp_path, name=name, **options)  # type: ignore[arg-type]
        made.append(worker)
        return worker.start()

    yield start
    for worker in made:
        worker.__exit__()


@pytest.fixture
def front(store: EmbeddedRedis) -> Iterator[Proxy]:
    """A way to the module's store that freezes whoever sends a command of a name through it."""
    with Proxy(store.port) as proxy:
        yield proxy
