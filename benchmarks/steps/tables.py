"""What runs come to: lines for one, a table for all, the median of repetitions in it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.steps.measure import Run
from benchmarks.steps.processes import Cpus

__all__ = ["Labelled", "blocked", "by_role", "detail", "table"]

Labelled = Mapping[str, Sequence[Run]]
"""The runs of each row."""

_COLUMNS = (
    "",
    "blocked p50 / p95 / p99 / max, ms",
    "CPU per turn, ms: agents + worker mains + their children + Redis",
    "together",
    "against the floor: p50, p99, CPU",
    "projected",
    "compactions",
    "lost",
    "over",
    "failed",
)
_HEAD = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")


def blocked(steps_ms: Sequence[float]) -> tuple[float, float, float, float]:
    """p50, p95, p99 and max in ms of how long agents waited; of two steps at least."""
    cut = statistics.quantiles(steps_ms, n=100, method="inclusive")
    return cut[49], cut[94], cut[98], max(steps_ms)


def by_role(cpu_ms: Cpus) -> Cpus:
    """Agents, worker mains, their children and Redis; the model's endpoint is nobody's cost."""
    roles = {"agents": 0.0, "worker main": 0.0, "worker children": 0.0, "redis": 0.0}
    for name, spent in cpu_ms.items():
        if name in roles:
            roles[name] += spent
        elif name.endswith(" children"):
            roles["worker children"] += spent
        elif name != "endpoint":
            roles["worker main"] += spent
    return roles


def detail(label: str, run: Run) -> str:
    """One run in a few lines."""
    p50, p95, p99, most = blocked(run.outcome.blocked_ms)
    cpu = "  ".join(f"{who} {spent:.2f}" for who, spent in run.cpu_ms.items())
    return (
        f"{label}: blocked {p50:.2f} / {p95:.2f} / {p99:.1f} / {most:.0f} ms; "
        f"{_cpu(run):.2f} ms of CPU a turn; {_projected(run):.1%} projected; asked {run.asked}; "
        f"wall {run.outcome.wall_s:.0f} s, settled {run.settled_s:.1f} s\n"
        f"    CPU a turn: {cpu}\n    {run.outcome.notes} {run.tasks or ''}"
        f"{run.outcome.errors or ''}"
    )


def _cpu(run: Run) -> float:
    return sum(by_role(run.cpu_ms).values())


def _projected(run: Run) -> float:
    return run.outcome.projected / run.outcome.reads


def _waited(at: int) -> Callable[[Run], float]:
    return lambda run: blocked(run.outcome.blocked_ms)[at]


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return statistics.median(map(of, runs))


def table(labelled: Labelled) -> list[str]:
    """Markdown: medians over a row's runs, the maximum and what went wrong over all of them."""
    floor: Sequence[Run] = ()
    lines = [*_HEAD]
    for label, runs in labelled.items():
        # A floor stands before the rows that are compared with it.
        floor = runs if runs[0].name == "floor" else floor
        lines.append(_row(label, runs, floor))
    return lines


def _row(label: str, runs: Sequence[Run], floor: Sequence[Run]) -> str:
    p50, p95, p99, most = (_median(runs, _waited(at)) for at in range(4))
    most = max(map(_waited(3), runs))
    roles = [by_role(run.cpu_ms) for run in runs]
    spent = " + ".join(f"{statistics.median(each[who] for each in roles):.2f}" for who in roles[0])
    cells = [
        label,
        f"{p50:.2f} / {p95:.2f} / {p99:.1f} / {most:.0f}",
        spent,
        f"{_median(runs, _cpu):.2f}",
        _against(runs, floor),
        f"{_median(runs, _projected):.1%}",
        *(_total(runs, what) for what in ("compactions", "lost", "over")),
        f"{sum(run.outcome.failed for run in runs):,}",
    ]
    return f"| {' | '.join(cells)} |"


def _against(runs: Sequence[Run], floor: Sequence[Run]) -> str:
    if not floor or floor is runs:
        return ""
    measures = (_waited(0), _waited(2), _cpu)
    return ", ".join(f"{_median(runs, each) / _median(floor, each):.1f}x" for each in measures)


def _total(runs: Sequence[Run], what: str) -> str:
    """Over all runs; nothing where it is not known."""
    found = [run.outcome.notes[what] for run in runs if what in run.outcome.notes]
    return f"{sum(found):,}" if found else ""
