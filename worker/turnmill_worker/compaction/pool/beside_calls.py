"""What a user says beside an agent's calls has its part of the room, however much is done."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from turnmill_worker.compaction.pool.unit_worth import Worth
from turnmill_worker.reading.actions import Role
from turnmill_worker.reading.units import TOOLS, Line, Source, Unit

__all__ = ["beside_calls"]

SHARE: Final = 0.7
"""Tokens of the user's words for each token of calls. What was done outweighs all that is said: a
session of a hundred calls would keep nothing of what its user changed and decided on the way."""

_OPENING: Final = 4
"""Tokens that a line of its own costs."""


def beside_calls(
    order: Sequence[int],
    lines: Sequence[Line],
    units: Sequence[Unit],
    worth: Worth,
    costs: Sequence[int],
) -> list[int]:
    """The same positions, among them the user's best words wherever calls took more room.

    Those may come from outside the order, whose last calls then give way to them: what all cost
    grows by no more than one unit.
    """
    if not any(line.source in TOOLS for line in lines):
        return list(order)
    own = [at for at, unit in enumerate(units) if _is_said(lines, unit)]
    if not own:
        return list(order)
    chosen = set(order)
    waiting = [at for at in order if _is_said(lines, units[at])]

    def dearness(at: int) -> float:
        gain = worth.factors[at] * sum(worth.weights[concept] for concept in worth.by_unit[at])
        return costs[at] / gain if gain else math.inf

    waiting += sorted((at for at in own if at not in chosen), key=dearness)
    left = sum(costs[at] for at in order)
    found: list[int] = []
    for at in dict.fromkeys(_merged(order, waiting, lines, units, costs)):
        if left <= 0:
            break
        found.append(at)
        left -= costs[at]
    return found


def _merged(
    order: Sequence[int],
    said: Sequence[int],
    lines: Sequence[Line],
    units: Sequence[Unit],
    costs: Sequence[int],
) -> Iterator[int]:
    """The order, and in it the best of what is said as soon as its share of the room is free."""
    waiting, given = iter(said), set[int]()
    called = told = 0.0
    for at in order:
        yield at
        if lines[units[at].line].source is Source.CALL:
            called += costs[at]
        elif _is_said(lines, units[at]) and at not in given:
            given.add(at)
            told += costs[at] + _OPENING
        while told < SHARE * called and (best := next(waiting, None)) is not None:
            if best not in given:
                given.add(best)
                told += costs[best] + _OPENING
                yield best


def _is_said(lines: Sequence[Line], unit: Unit) -> bool:
    """Whether a sentence is a user's own."""
    return unit.is_prose and unit.role is Role.SAID and lines[unit.line].source is Source.USER
