"""How long agents wait and what a turn costs, as two small SVG files."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.steps.measure import Run
from benchmarks.steps.tables import Labelled, by_role

__all__ = ["draw_blocked", "draw_cpu"]

_STYLE: dict[Any, Any] = {"svg.hashsalt": "turnmill", "svg.fonttype": "none", "font.size": 9}
_COLOURS = {
    "agents": "#4c72b0",
    "worker main": "#dd8452",
    "worker children": "#e8b06d",
    "redis": "#c44e52",
}


def draw_blocked(labelled: Labelled, path: Path) -> None:
    """The share of steps that take longer than so many ms, both axes logarithmic."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for label, runs in labelled.items():
            axes.plot(*_longer(runs), label=label, linewidth=2.2 if "turnmill" in label else 1.2)
        axes.set(
            xscale="log", yscale="log", xlabel="blocked longer than, ms", ylabel="share of steps"
        )
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
        _save(figure, path)


def _longer(runs: list[Run] | Any) -> tuple[list[float], list[float]]:
    """Points of the curve: 120 are enough, however many steps there were."""
    waits = sorted(wait for run in runs for wait in run.outcome.blocked_ms)
    shares = [10 ** (-at / 30) for at in range(120)]
    shares = [share for share in shares if share * len(waits) >= 1]
    return [waits[-max(int(share * len(waits)), 1)] for share in shares], shares


def draw_cpu(labelled: Labelled, path: Path) -> None:
    """A bar for each row, the processes beside one another in it."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7, 0.6 + 0.3 * len(labelled)), layout="constrained")
        axes = figure.subplots()
        labels = list(labelled)[::-1]
        left = [0.0] * len(labels)
        for role, colour in _COLOURS.items():
            spent = [
                statistics.median(by_role(run.cpu_ms)[role] for run in labelled[label])
                for label in labels
            ]
            axes.barh(labels, spent, left=left, label=role, color=colour)
            left = [a + b for a, b in zip(left, spent, strict=True)]
        axes.set(xlabel="ms of CPU per turn")
        axes.legend(fontsize=8)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    # Trailing blanks, which no editor would leave there.
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text().splitlines()))
