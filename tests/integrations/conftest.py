"""Agents with a real Celery worker behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import WorkerProcess
from turnmill import ContextClient
from turnmill.embedded_redis import EmbeddedRedis


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A server of the module's own: its worker finds no other test's sessions there."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker for the module."""
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
