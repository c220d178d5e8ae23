"""What a user says beside an agent's calls has its part of the room, however much is done."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from turnmill_worker.compaction.pool.again import Again
from turnmill_worker.compaction.pool.unit_worth import Worth
from turnmill_worker.old_reading.units import TOOLS, Line, Source, Unit, is_own_words

__all__ = ["beside_calls"]

SHARE: Final = 0.7
"""Tokens of the user's words for each token of calls. What was done outweighs all that is said: a
session of a hundred calls would keep nothing of what its user changed and decided on the way."""

_SAYS_LITTLE: Final = 3
"""Spaces; what is shorter is a yes or a thank-you."""

_NUMBER = re.compile(r"\d{1,20}")
_OPENING: Final = 4
"""Tokens that a line of its own costs."""


def beside_calls(
    order: Sequence[int],
    lines: Sequence[Line],
    units: Sequence[Unit],
    worth: Worth,
    costs: Sequence[int],
    repeated: Again,
) -> list[int]:
    """The same positions, among them the user's best words wherever calls took more room.

    Those may come from outside the order, whose end then gives way to them: what all cost grows by
    no more than one unit. What was said again comes forward once, and what says little does not.
    """
    if not any(line.source in TOOLS for line in lines):
        return list(order)
    said = [
        at
        for at, unit in enumerate(units)
        if is_own_words(lines[unit.line], unit)
        and at not in repeated.by
        and unit.text.count(" ") >= _SAYS_LITTLE
    ]
    if not said:
        return list(order)
    best = _once(_best_first(order, said, worth, costs), units)
    left = sum(costs[at] for at in order)
    found: list[int] = []
    for at in dict.fromkeys(_merged(order, best, lines, units, costs)):
        if left <= 0:
            break
        found.append(at)
        left -= costs[at]
    return found


def _best_first(
    order: Sequence[int], said: Sequence[int], worth: Worth, costs: Sequence[int]
) -> list[int]:
    """What is said: first as it stands in the order, then what carries most for its cost."""

    def dearness(at: int) -> float:
        gain = worth.factors[at] * sum(worth.weights[concept] for concept in worth.by_unit[at])
        return costs[at] / gain if gain else math.inf

    own, chosen = frozenset(said), frozenset(order)
    others = sorted((at for at in said if at not in chosen), key=dearness)
    return [*(at for at in order if at in own), *others]


def _once(positions: Sequence[int], units: Sequence[Unit]) -> list[int]:
    """The first of those that differ in numbers only."""
    alike: dict[str, int] = {}
    for at in positions:
        alike.setdefault(_NUMBER.sub("", units[at].text), at)
    return list(alike.values())


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
        elif is_own_words(lines[units[at].line], units[at]) and at not in given:
            given.add(at)
            told += costs[at] + _OPENING
        while told < SHARE * called and (best := next(waiting, None)) is not None:
            if best not in given:
                given.add(best)
                told += costs[best] + _OPENING
                yield best
