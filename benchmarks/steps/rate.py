"""How many turns a second a core of workers sustains: ever more of them, until they lag."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.steps.cases import APART
from benchmarks.steps.load import Load
from benchmarks.steps.measure import Run, Setup, measured
from benchmarks.steps.tables import blocked, by_role

__all__ = ["HEAD", "rates", "row"]

LEVELS = (50, 100, 200, 300, 400, 500, 600, 800)
AGENTS = 32
SECONDS = 20
LAG_S = 5.0
"""Workers that need longer than this when the agents are done were left behind."""

KEEPS_UP = 0.7
"""Of what was meant: agents think, and the slowest of them ends later than the others."""

_COLUMNS = (
    "turns/s, meant",
    "turns/s",
    "blocked p50 / p99, ms",
    "agents + Redis, share of a core",
    "workers, share of a core",
    "turns per worker CPU second",
    "projected",
    "done after, s",
)
HEAD = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")


def rates(load: Load, kind: str) -> Iterator[tuple[int, Run]]:
    """Runs at each level with the workers on a core of their own, the first that is too much last.

    Where agents and Redis fill their own core, no more is learned about workers.
    """
    for level in LEVELS:
        faster = Load(
            agents=AGENTS,
            turns=level * SECONDS // AGENTS,
            think_s=AGENTS / level,
            window=load.window,
            model=load.model,
        )
        run = measured("turnmill", faster, Setup(workers=kind, pins=APART))
        yield level, run
        if run.settled_s > LAG_S or _achieved(run) < KEEPS_UP * level:
            return


def _achieved(run: Run) -> float:
    return run.load.agents * run.load.turns / run.outcome.wall_s


def row(level: int, run: Run) -> str:
    """Of a markdown table."""
    p50, _, p99, _ = blocked(run.outcome.blocked_ms)
    roles = by_role(run.cpu_ms)
    workers_ms = roles["worker main"] + roles["worker children"]
    others_ms = roles["agents"] + roles["redis"]
    turns_s = _achieved(run)
    until_done_s = run.outcome.wall_s + run.settled_s
    number = run.load.agents * run.load.turns
    return (
        f"| {level} | {turns_s:.0f} | {p50:.2f} / {p99:.1f} | {others_ms / 1000 * turns_s:.0%} | "
        f"{workers_ms / 1000 * number / until_done_s:.0%} | {1000 / workers_ms:.0f} | "
        f"{run.outcome.projected / run.outcome.reads:.1%} | {run.settled_s:.1f} |"
    )
