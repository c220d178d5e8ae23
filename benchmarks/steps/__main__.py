"""Prints what a step costs: ``python -m benchmarks.steps --help``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import turnmill
from benchmarks.steps.agents import HOMES, PEERS
from benchmarks.steps.load import Load
from benchmarks.steps.machine import machine
from benchmarks.steps.measure import Run, Setup, measured
from benchmarks.steps.processes import Pins
from benchmarks.steps.tables import detail, table


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps")
    add = parser.add_argument
    add(
        "--only",
        default="floor,turnmill",
        help=f"what to run, in this order: {', '.join(HOMES)}, or all",
    )
    add("--agents", type=int, default=32)
    add("--turns", type=int, default=200, help="of each agent")
    add("--think", type=float, default=0.2, help="seconds between two steps")
    add("--window", type=int, default=8192, help="tokens of a context")
    add("--burst", type=int, default=1, help="turns pushed in one step")
    add("--writers", type=int, default=1, help="tasks that push to one session")
    add("--extractive", dest="model", action="store_false", help="no model")
    add("--model", action="store_true", default=True, help="a model that takes 800 ms")
    add("--pinned", action="store_true", help="agents and Redis on one core, workers on another")
    add("--workers", choices=("pair", "up", "compose"), default="pair")
    add("--events", action="store_true", help="count tasks; disturbs the CPU times")
    add("--repeat", type=int, default=1)
    add("--peers", default="build/peers/bin/python", help="the interpreter that has the peers")
    add("--json", type=Path, help="a file for all that was measured")
    return parser.parse_args()


def main() -> None:
    asked = options()
    load = Load(
        agents=asked.agents,
        turns=asked.turns,
        think_s=asked.think,
        window=asked.window,
        model=asked.model,
        burst=asked.burst,
        writers=asked.writers,
    )
    pins = Pins("0", "1") if asked.pinned else Pins()
    setup = Setup(workers=asked.workers, pins=pins, events=asked.events)
    runs: list[Run] = []
    print(machine() + f", code of {Path(turnmill.__file__).parents[1]}")
    for _ in range(asked.repeat):
        for name in HOMES if asked.only == "all" else asked.only.split(","):
            python = asked.peers if name in PEERS else sys.executable
            runs.append(measured(name, load, setup, python))
            print(detail(runs[-1]), flush=True)
    print("\n".join(table(runs)))
    if asked.json:
        asked.json.write_text(json.dumps([run.as_json() for run in runs]))


if __name__ == "__main__":
    main()
