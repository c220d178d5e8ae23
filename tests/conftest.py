"""A real redis-server for all tests, and a namespace of its own for each."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import hypothesis
import pytest
import redis

from tests.processes import WorkerProcess
from turnmill import AsyncContextClient, ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis

# The same examples in every run, so that red means a change; TURNMILL_EXPLORE=1 looks for new ones.
hypothesis.settings.register_profile("repeat", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("explore" if os.environ.get("TURNMILL_EXPLORE") else "repeat")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that wait for workers, the largest first.

    So that the last ones are short, and no process is alone with a long one in the end.
    """
    sizes = Counter(item.path for item in items)
    waiting = {item.path for item in items if item.get_closest_marker("worker")}
    items.sort(key=lambda item: (item.path not in waiting, -sizes[item.path], item.path))


INTERRUPTED_AGAIN_AFTER_S = 60.0


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(settings: Any) -> Generator[None, object, object]:
    """Interrupt a test that is out of time again and again.

    Interrupted once, it leaves its with blocks, and one of them may wait for ever, too.
    """
    is_set = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, INTERRUPTED_AGAIN_AFTER_S)
    return is_set


def _new_server(factory: pytest.TempPathFactory) -> EmbeddedRedis:
    """TURNMILL_TEST_REDIS_SERVER names another binary."""
    binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
    return EmbeddedRedis(factory.mktemp("redis"), durable=False, binary=binary)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """One server for the run; no worker stays on it."""
    with _new_server(tmp_path_factory) as server:
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


# Agents with a real Celery worker behind them


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A server of the module's own: its worker finds no other test's sessions there."""
    with _new_server(tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker for the module, for tests that leave it alive."""
    with WorkerProcess(store.url, tmp_path_factory.mktemp("worker")) as running:
        yield running


@pytest.fixture
def agents(
    store: EmbeddedRedis,
    namespace: str,
    worker: WorkerProcess,  # noqa: ARG001 - it must run
) -> Iterator[ContextClient]:
    """A client as agents have it, hints and all."""
    with ContextClient(store.url, namespace=namespace) as made:
        yield made


@pytest.fixture
async def async_agents(
    store: EmbeddedRedis,
    namespace: str,
    worker: WorkerProcess,  # noqa: ARG001 - it must run
) -> AsyncIterator[AsyncContextClient]:
    """The asynchronous client of the same namespace."""
    async with AsyncContextClient(store.url, namespace=namespace) as made:
        yield made
