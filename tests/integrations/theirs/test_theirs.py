"""Frameworks' own tests of sessions, histories and memories, with turnmill's in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.theirs.runner import FRAMEWORKS, run, sources, table_of
from tests.processes import WorkerProcess
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = [pytest.mark.worker, pytest.mark.slow]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_their_tests_pass_but_for_those_on_the_list(framework: str, tmp_path: Path) -> None:
    table = table_of(framework)
    root = sources(table, tmp_path)
    (tmp_path / "redis").mkdir()
    with (
        EmbeddedRedis(tmp_path / "redis", durable=False) as server,
        WorkerProcess(server.url, tmp_path, pool="threads", concurrency=3),
    ):
        env = {"TURNMILL_THEIR_REDIS": server.url}
        counts = run(framework, root, env, within_s=300)

    assert counts["passed"] >= table["least"]
