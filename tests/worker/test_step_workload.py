"""The step workload of the benchmarks, a very short one: it runs, and it counts what it should."""

from __future__ import annotations

import pytest

from benchmarks.steps.load import Load
from benchmarks.steps.measure import Setup, measured
from benchmarks.steps.tables import by_role

pytestmark = pytest.mark.worker

SETUP = Setup(latency_s=0.02, quiet_s=0.5, events=True)


@pytest.mark.slow
def test_agents_push_and_read_beside_workers_and_nothing_is_lost() -> None:
    load = Load(agents=2, turns=20, think_s=0.02, window=2048)

    run = measured("turnmill", load, SETUP)

    assert run.outcome.reads == len(run.outcome.blocked_ms) == 40
    assert (run.outcome.notes["lost"], run.outcome.notes["over"]) == (0, 0)
    assert run.outcome.notes["compactions"] >= 2
    assert run.tasks["turnmill.estimate"] >= 2
    assert all(by_role(run.cpu_ms)[who] > 0 for who in ("agents", "worker children", "redis"))


@pytest.mark.slow
def test_the_floor_keeps_every_turn() -> None:
    run = measured("floor", Load(agents=2, turns=20, think_s=0.02), SETUP)

    assert run.outcome.notes["kept"] == 40
    assert by_role(run.cpu_ms)["worker main"] == 0
