"""Agents with a real Celery worker behind them, and an archive behind that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import WorkerProcess
from tests.specifications.agents import worker_with_archive
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker for the module, with an archive."""
    with worker_with_archive(store, tmp_path_factory.mktemp("worker")) as running:
        yield running
