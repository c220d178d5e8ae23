"""A short run by chance: whatever breaks, nothing promised does. `make chaos` runs for longer."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.chaos.__main__ import RunPlan, run
from tests.chaos.faults import cut_the_journal
from tests.chaos.world import World

pytestmark = [pytest.mark.worker, pytest.mark.slow]


def test_no_promise_breaks_while_everything_else_does(tmp_path: Path) -> None:
    # How soon it settles is for `make chaos` to say, on a machine without other work.
    plan = RunPlan(seconds=15, seed=11, fsync="always", burst=0, settle_s=90)

    report = run(plan, tmp_path / "run")

    assert not report.violations, str(report)
    assert report.pushes > 100
    assert report.reads > 10
    assert report.commits > 0


def test_a_journal_that_grew_beyond_its_rewrite_is_cut_where_it_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.store, world.store.admin() as client:
        client.config_set("auto-aof-rewrite-min-size", 1)
        client.set("before", "x" * 5000)

        def meanwhile() -> None:
            for _ in range(20):
                client.set("meanwhile", "y" * 5000)
                time.sleep(0.02)  # rewrites are looked for ten times a second

        cut_the_journal(world, random.Random(1), meanwhile=meanwhile)

        assert client.exists("before") == 1
        assert client.exists("meanwhile") == 0
