from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.processes import (
    answers,
    clean_environment,
    free_port,
    redis_servers,
    running,
)
from tests.processes import wait_until


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of this test's own, on loopback, keeping nothing."""
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    server = list(redis_servers().values())[-1]
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with running(command, environment=clean_environment(), folder=tmp_path / "redis") as program:
        wait_until(lambda: answers(url), within_s=10, what=program.output)
        yield url
