"""What is run for the tables of docs/benchmarks.md, table by table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.steps.agents import PEERS
from benchmarks.steps.load import Load
from benchmarks.steps.measure import Run, Setup, measured
from benchmarks.steps.processes import Pins

__all__ = ["APART", "TABLES", "Case", "Table", "repeated"]

APART = Pins("0", "1")
"""Agents and Redis on one core, workers on the other."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of a table; a row begins with ``label``."""

    label: str
    name: str
    load: Load
    setup: Setup = field(default_factory=Setup)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows that are compared with the floor among them, run in turn."""

    title: str
    cases: tuple[Case, ...]


Measure = Callable[[str, Load, Setup, str], Run]


def repeated(
    cases: Sequence[Case], repeat: int, peers: str, measure: Measure = measured
) -> Iterator[tuple[str, Run]]:
    """Each case's runs with its label: all of them once, then all again."""
    for _ in range(repeat):
        for case in cases:
            python = peers if case.name in PEERS else sys.executable
            yield case.label, measure(case.name, case.load, case.setup, python)


def _pair(load: Load, said: str) -> list[Case]:
    """The floor and turnmill under one load."""
    return [Case(label=f"{name}, {said}", name=name, load=load) for name in ("floor", "turnmill")]


_LOAD = Load()
_SAME_RATE_S = 0.2 * 256 / 32

TABLES = {
    "main": Table(
        title="32 agents, 8,192 tokens",
        cases=(
            Case(label="floor", name="floor", load=_LOAD),
            Case(label="turnmill", name="turnmill", load=_LOAD),
            Case(label="turnmill, counting", name="turnmill counting", load=_LOAD),
            Case(label="turnmill, extractive", name="turnmill", load=replace(_LOAD, model=False)),
            Case(
                label="turnmill, extractive, counting",
                name="turnmill counting",
                load=replace(_LOAD, model=False),
            ),
            Case(label="floor, pinned", name="floor", load=_LOAD, setup=Setup(pins=APART)),
            Case(label="turnmill, pinned", name="turnmill", load=_LOAD, setup=Setup(pins=APART)),
        ),
    ),
    "peers": Table(
        title="Others, under the same load",
        cases=(
            Case(label="floor", name="floor", load=_LOAD),
            Case(label="turnmill", name="turnmill", load=_LOAD),
            *(Case(label=name, name=name, load=_LOAD) for name in PEERS),
        ),
    ),
    "agents": Table(
        title="More and fewer agents",
        cases=(
            *_pair(replace(_LOAD, agents=1), "1 agent"),
            *_pair(replace(_LOAD, agents=8), "8 agents"),
            *_pair(
                replace(_LOAD, agents=256, turns=60, think_s=_SAME_RATE_S),
                "256 agents that think 1.6 s",
            ),
        ),
    ),
    "windows": Table(
        title="Larger windows",
        cases=(
            Case(label="floor", name="floor", load=_LOAD),
            Case(label="turnmill, 32k", name="turnmill", load=replace(_LOAD, window=32_768)),
            Case(label="turnmill, 128k", name="turnmill", load=replace(_LOAD, window=131_072)),
        ),
    ),
    "bursts": Table(
        title="Bursts of 100 turns, 8 agents that think 1 s",
        cases=tuple(
            _pair(replace(_LOAD, agents=8, turns=2000, burst=100, think_s=1.0), "bursts of 100")
        ),
    ),
    "writers": Table(
        title="Two tasks that push to one session, 8 sessions",
        cases=tuple(
            Case(label=name, name=name, load=replace(_LOAD, agents=8, turns=200, writers=2))
            for name in ("turnmill", *PEERS)
        ),
    ),
    "short": Table(
        title="8 agents, 8,192 tokens",
        cases=tuple(_pair(replace(_LOAD, agents=8, turns=60), "60 turns")),
    ),
}
