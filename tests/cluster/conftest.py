"""One Cluster for a module, and what runs on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.servers import Cluster, server_binary
from tests.cluster.trio import Trio
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.errors import StoreUnavailable


@pytest.fixture(scope="module", autouse=True)
def servers() -> None:
    """Skip these tests where there is no server."""
    try:
        subprocess.run([server_binary(), "--version"], check=True, capture_output=True)
    except (StoreUnavailable, OSError, subprocess.CalledProcessError):
        pytest.skip("no server: set TURNMILL_TEST_REDIS_SERVER, or install redis-server")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    """A master and a replica under Sentinels; a test may kill either."""
    made = Trio(tmp_path / "trio")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A single Redis for hints."""
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedRedis(folder, durable=False, binary=server_binary()) as server:
        yield server
