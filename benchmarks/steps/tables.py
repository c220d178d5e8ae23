"""What runs come to: a line for one, a table for all, the median of repetitions in it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.steps.measure import Run
from benchmarks.steps.processes import Cpus

__all__ = ["Blocked", "blocked", "by_role", "detail", "table"]

_HEAD = (
    "| | blocked p50 / p95 / p99 / max, ms | CPU per turn, ms: agents + worker main + "
    "worker children + Redis | together | reads projected | lost | over the limit |"
)

Blocked = tuple[float, float, float, float]
"""p50, p95, p99 and max in ms."""


def blocked(steps_ms: Sequence[float]) -> Blocked:
    """How long agents waited; needs two steps at least."""
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


def detail(run: Run) -> str:
    """One run in two lines."""
    p50, p95, p99, most = blocked(run.outcome.blocked_ms)
    notes = {k: v for k, v in run.outcome.notes.items() if k != "sessions"}
    cpu = "  ".join(f"{who} {spent:.2f}" for who, spent in run.cpu_ms.items())
    return (
        f"{run.name}: blocked {p50:.2f} / {p95:.2f} / {p99:.1f} / {most:.0f} ms; "
        f"{sum(by_role(run.cpu_ms).values()):.2f} ms of CPU a turn; "
        f"{run.outcome.projected / run.outcome.reads:.1%} projected; "
        f"asked {run.asked}; wall {run.outcome.wall_s:.0f} s, settled {run.settled_s:.1f} s\n"
        f"    CPU a turn: {cpu}\n    {notes} {run.tasks or ''}"
    )


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def table(runs: Sequence[Run]) -> list[str]:
    """Markdown: a row for each name, medians over its runs, the maximum over all."""
    lines = [_HEAD, "|---|---|---|---|---|---|---|"]
    for name in dict.fromkeys(run.name for run in runs):
        mine = [run for run in runs if run.name == name]
        waits = [blocked(run.outcome.blocked_ms) for run in mine]
        p50, p95, p99 = (_median(wait[at] for wait in waits) for at in range(3))
        roles = [by_role(run.cpu_ms) for run in mine]
        spent = [_median(role[who] for role in roles) for who in roles[0]]
        projected = _median(run.outcome.projected / run.outcome.reads for run in mine)
        notes = [run.outcome.notes for run in mine]
        lost, over = (sum(each.get(what, 0) for each in notes) for what in ("lost", "over"))
        lines.append(
            f"| {name} | {p50:.2f} / {p95:.2f} / {p99:.1f} / {max(w[3] for w in waits):.0f} | "
            f"{' + '.join(f'{each:.2f}' for each in spent)} | "
            f"{_median(sum(role.values()) for role in roles):.2f} | {projected:.1%} | "
            f"{lost} | {over} |"
        )
    return lines
