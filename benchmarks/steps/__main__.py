"""Prints what a step costs: ``python -m benchmarks.steps --help``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import turnmill
from benchmarks.steps import idle, rate
from benchmarks.steps.agents import HOMES
from benchmarks.steps.cases import APART, TABLES, Case, repeated
from benchmarks.steps.load import Load
from benchmarks.steps.machine import machine
from benchmarks.steps.measure import Run, Setup
from benchmarks.steps.processes import Pins
from benchmarks.steps.results import Results
from benchmarks.steps.tables import detail, table

NAMESPACES = (1, 10_000)


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps")
    add = parser.add_argument
    add("--only", default="floor,turnmill", help=f"what runs, in this order: {', '.join(HOMES)}")
    add("--agents", type=int, default=32)
    add("--turns", type=int, default=200, help="of each agent")
    add("--think", type=float, default=0.2, help="seconds between two steps")
    add("--window", type=int, default=8192, help="tokens of a context")
    add("--burst", type=int, default=1, help="turns pushed in one step")
    add("--writers", type=int, default=1, help="tasks that push to one session")
    add("--extractive", dest="model", action="store_false", help="no model")
    add("--model", action="store_true", default=True, help="a model that takes 800 ms")
    add("--pinned", action="store_true", help="agents and Redis on one core, workers on another")
    add("--workers", choices=("pair", "up", "compose"), default="pair", help="which processes")
    add("--events", action="store_true", help="count tasks; disturbs the CPU times")
    add("--repeat", type=int, default=1, help="rounds; all that is compared runs in each")
    add("--peers", default="build/peers/bin/python", help="the interpreter that has the peers")
    add("--tables", default="", help=f"instead of one load, these: {', '.join(TABLES)}")
    add("--rate", action="store_true", help="instead, how many turns a second workers sustain")
    add("--idle", action="store_true", help="instead, what workers cost that do nothing")
    add("--json", type=Path, help="a file that results are added to")
    return parser.parse_args()


def asked_cases(asked: argparse.Namespace) -> list[Case]:
    """One load for each name."""
    load = Load(
        agents=asked.agents,
        turns=asked.turns,
        think_s=asked.think,
        window=asked.window,
        model=asked.model,
        burst=asked.burst,
        writers=asked.writers,
    )
    setup = Setup(
        workers=asked.workers, pins=APART if asked.pinned else Pins(), events=asked.events
    )
    return [Case(label=name, name=name, load=load, setup=setup) for name in asked.only.split(",")]


def run_table(cases: Sequence[Case], asked: argparse.Namespace) -> Iterator[tuple[str, Run]]:
    """Its rows; each is printed as soon as it is there, the table at the end."""
    labelled: dict[str, list[Run]] = {}
    for label, run in repeated(cases, asked.repeat, asked.peers):
        labelled.setdefault(label, []).append(run)
        print(detail(label, run), flush=True)
        yield label, run
    print("\n".join(table(labelled)), flush=True)


def main() -> None:
    asked = options()
    here = machine()
    print(f"{here}, code of {Path(turnmill.__file__).parents[1]}")
    results = Results.read(asked.json) if asked.json else Results()
    if asked.rate:
        results.machines["rate"], results.rates = here, []
        print("\n".join(rate.HEAD))
        for level, run in rate.rates(asked_cases(asked)[0].load, asked.workers):
            results.rates.append((level, run))
            print(rate.row(level, run), flush=True)
    elif asked.idle:
        results.machines["idle"] = here
        results.idles = [idle.idle(number, kind=asked.workers) for number in NAMESPACES]
        print("\n".join([*idle.HEAD, *(each.row() for each in results.idles)]))
    for name in asked.tables.split(",") if asked.tables else ():
        results.machines[name] = machine()
        results.tables[name] = list(run_table(TABLES[name].cases, asked))
        if asked.json:
            results.write(asked.json)
    if not (asked.rate or asked.idle or asked.tables):
        results.machines["asked"] = here
        results.tables["asked"] = list(run_table(asked_cases(asked), asked))
    if asked.json:
        results.write(asked.json)


if __name__ == "__main__":
    main()
