"""A demo beside a `turnmill up`, and what that says of all namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import UpProcess
from tests.processes import wait_until
from tests.replay.commands import run
from turnmill import ContextClient
from turnmill_cli.local.processes import UpRunning, announce, locked, running_in

RUNNING = UpRunning("redis://127.0.0.1:7/0", "")


def test_only_an_up_that_runs_is_found(tmp_path: Path) -> None:
    assert running_in(tmp_path) is None
    with locked(tmp_path):
        assert running_in(tmp_path) is None, "it is not up yet"
        announce(tmp_path, RUNNING)
        assert running_in(tmp_path) == RUNNING
    assert running_in(tmp_path) is None

    (tmp_path / "up.json").write_text('{"redis_url": "redis://killed"}')
    with locked(tmp_path):
        assert running_in(tmp_path) is None, "what a killed one said is no longer so"


@pytest.mark.worker
@pytest.mark.timeout(300)
def test_a_demo_works_with_the_up_beside_it_which_counts_all_namespaces(tmp_path: Path) -> None:
    with UpProcess(tmp_path / "turnmill-data", "--no-flower").launch() as up:
        up.wait_until_up()
        for name in ("one", "two"):
            with ContextClient(up.redis_url, namespace=name) as client:
                client.push("s", {"role": "user", "content": "x"})

        ran = run(
            *(tmp_path, "demo", "--agents", 2, "--steps", 20, "--max-tokens", 4000),
            *("--workers", 1, "--pace", 5, "--hold"),
        )

        assert ran.exit_code == 0, ran.stdout + ran.stderr
        assert "Joining the `turnmill up` at redis://127.0.0.1:" in ran.stderr
        assert "turnmill visualize agent-01 --namespace demo-" in ran.stderr
        wait_until(
            lambda: " 4 sessions in 3 namespaces " in up.output().rpartition("workers ·")[2],
            within_s=30,
            what="those of all namespaces",
        )
