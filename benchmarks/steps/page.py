"""Writes the section of docs/benchmarks.md and its plots: ``python -m benchmarks.steps.page``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.steps import idle, rate
from benchmarks.steps.cases import TABLES
from benchmarks.steps.plots import draw_blocked, draw_cpu
from benchmarks.steps.results import Results
from benchmarks.steps.tables import table

__all__ = ["between_markers", "section"]

BEGIN, END = "<!-- steps: begin -->", "<!-- steps: end -->"
PLOTS = {
    "steps-blocked.svg": ("How many steps take longer than so many ms", draw_blocked),
    "steps-cpu.svg": ("CPU per turn by process", draw_cpu),
}
DRAWN = ("main", "peers")


def section(results: Results) -> Iterator[str]:
    """The lines between the markers: a table for each that was measured."""
    if any(name in results.tables for name in DRAWN):
        yield from (f"![{said}]({name})\n" for name, (said, _) in PLOTS.items())
    for name, each in TABLES.items():
        if name in results.tables and name != "short":
            yield from (f"### {each.title}", "", f"{results.machines[name]}.", "")
            yield from (*table(results.labelled(name)), "")
    if results.rates:
        yield from ("### What a core of workers sustains", "", f"{results.machines['rate']}.", "")
        yield from (*rate.HEAD, *(rate.row(level, run) for level, run in results.rates), "")
    if results.idles:
        yield from ("### Idle", "", f"{results.machines['idle']}.", "")
        yield from (*idle.HEAD, *(each.row() for each in results.idles), "")


def between_markers(page: str, lines: str) -> str:
    """The page with these lines between its markers."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{lines}\n{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps.page")
    parser.add_argument("results", type=Path)
    parser.add_argument("page", type=Path)
    asked = parser.parse_args()
    results = Results.read(asked.results)
    lines = "\n".join(section(results))
    asked.page.write_text(between_markers(asked.page.read_text(), lines))
    rows = {label: runs for name in DRAWN for label, runs in results.labelled(name).items()}
    for name, (_, draw) in PLOTS.items() if rows else ():
        draw(rows, asked.page.with_name(name))


if __name__ == "__main__":
    main()
