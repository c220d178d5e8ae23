"""One Cluster for a module, and what runs on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.servers import Cluster, Trio, server_binary
from turnmill.contract.errors import StoreUnavailable
from turnmill.embedded_redis import EmbeddedRedis


@pytest.fixture(scope="module")
def binary() -> str:
    """The server; these tests are skipped where there is none."""
    try:
        found = server_binary()
        subprocess.run([found, "--version"], check=True, capture_output=True)
    except (StoreUnavailable, OSError, subprocess.CalledProcessError):
        pytest.skip("no server: set TURNMILL_TEST_REDIS_SERVER, or install redis-server")
    return found


@pytest.fixture(scope="module")
def cluster(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def trio(binary: str, tmp_path: Path) -> Iterator[Trio]:
    """A master and a replica under Sentinels; a test may kill either."""
    made = Trio(tmp_path / "trio")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def broker(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A single Redis for hints."""
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedRedis(folder, durable=False, binary=binary) as server:
        yield server
