"""A short run by chance: whatever breaks, nothing promised does. `make chaos` runs for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import RunPlan, run

pytestmark = [pytest.mark.worker, pytest.mark.slow]


def test_no_promise_breaks_while_everything_else_does(tmp_path: Path) -> None:
    # How soon it settles is for `make chaos` to say, on a machine without other work.
    plan = RunPlan(seconds=15, seed=11, fsync="always", burst=0, settle_s=90)

    report = run(plan, tmp_path / "run")

    assert not report.violations, str(report)
    assert report.pushes > 100
    assert report.reads > 10
    assert report.commits > 0
