"""The workload in a minute, for `make bench`."""

from __future__ import annotations

import sys

from benchmarks.steps.cases import TABLES, repeated
from benchmarks.steps.machine import machine
from benchmarks.steps.measure import Run
from benchmarks.steps.tables import table
from turnmill.connection.embedded import EmbeddedRedis


def run(_server: EmbeddedRedis) -> list[str]:
    """The table; its processes, Redis among them, are its own."""
    labelled: dict[str, list[Run]] = {}
    for label, each in repeated(TABLES["short"].cases, 1, sys.executable):
        labelled[label] = [each]
    return [f"{TABLES['short'].title}; {machine()}", *table(labelled)]
