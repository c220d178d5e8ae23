"""The parts of the step workload that could be wrong without anybody seeing it."""

from __future__ import annotations

from typing import Any

from benchmarks.steps.load import Load
from benchmarks.steps.measure import count_contexts
from benchmarks.steps.tables import by_role
from benchmarks.steps.turns import mark


def test_cpu_is_told_apart_by_role_and_the_model_costs_nobody() -> None:
    spent = {"agents": 1.0, "redis": 2.0, "estimate": 3.0, "estimate children": 4.0}
    spent |= {"summarize": 5.0, "endpoint": 100.0}

    assert by_role(spent) == {
        "agents": 1.0,
        "worker main": 8.0,
        "worker children": 4.0,
        "redis": 2.0,
    }


def test_a_turn_is_lost_that_no_context_and_no_model_was_shown() -> None:
    notes: dict[str, Any] = {
        "contexts": ["word " * 50],
        "last": [mark(0, 1), f"{mark(0, 2)}{mark(1, 3)}"],
    }

    count_contexts(notes, Load(agents=2, turns=3, window=40), [mark(0, 3), mark(1, 1)])

    assert notes == {"looked_at": 3, "over": 1, "lost": 1}
