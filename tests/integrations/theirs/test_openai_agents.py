"""openai-agents' tests of its own sessions, with turnmill's in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.theirs.runner import run, sources
from tests.processes import WorkerProcess
from turnmill.embedded_redis import EmbeddedRedis

pytestmark = [pytest.mark.worker, pytest.mark.slow]

FILES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/extensions/memory/test_redis_session.py",
)


@pytest.mark.timeout(400)
def test_their_session_tests_pass_but_for_those_on_the_list(tmp_path: Path) -> None:
    root = sources("openai-agents", tmp_path)
    (tmp_path / "redis").mkdir()
    with (
        EmbeddedRedis(tmp_path / "redis", durable=False) as server,
        WorkerProcess(server.url, tmp_path, pool="threads", concurrency=3),
    ):
        env = {"TURNMILL_THEIR_REDIS": server.url}
        counts = run("openai_agents", root, FILES, env, within_s=300)

    assert counts["passed"] >= 150
