"""The order in which units earn their place: the best gain for its cost first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

from turnmill_worker.summarizers.extractive.concepts import Worth
from turnmill_worker.summarizers.extractive.units import Unit

COST_POWER: Final = 0.85
"""Below 1, so that a long unit full of facts is not beaten by every scrap of one fact."""


REPEATED: Final = 0.5
"""What a sentence is worth each time one like it, numbers aside, is already kept."""


class Selection:
    """A lazy greedy choice: gains only ever fall, so a stale score is an upper bound.

    Costs fall too, when a unit's line or group opens and its siblings no longer pay for the
    opening; those siblings are queued again, which is what keeps whole turns together.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        worth: Worth,
        *,
        costs: Sequence[int],
        group_costs: Sequence[int],
        line_costs: Sequence[int],
    ) -> None:
        self._units = units
        self._worth = worth
        self._costs = costs
        self._group_costs = group_costs
        self._line_costs = line_costs
        self._left = list(worth.weights)
        self._line_open = bytearray(len(line_costs))
        self._group_open = bytearray(len(group_costs))
        self._taken = bytearray(len(units))
        self._told: dict[int, int] = {}
        self._by_line: list[list[int]] = [[] for _ in line_costs]
        self._by_group: list[list[int]] = [[] for _ in group_costs]
        for position, unit in enumerate(units):
            self._by_line[unit.line].append(position)
            self._by_group[unit.group].append(position)

    def run(self, limit: int) -> list[int]:
        """Units in the order taken, while their estimated costs stay within `limit`."""
        heap = [(-self._score(i), i) for i in range(len(self._units))]
        heapq.heapify(heap)
        order: list[int] = []
        while heap and limit > 0:
            _, position = heapq.heappop(heap)
            if self._taken[position]:
                continue
            score = self._score(position)
            if heap and -score > heap[0][0]:
                if score > 0:
                    heapq.heappush(heap, (-score, position))
                continue
            cost = self._cost(position)
            if score <= 0 or cost > limit:
                continue
            limit -= cost
            order.append(position)
            for sibling in self._take(position):
                heapq.heappush(heap, (-self._score(sibling), sibling))
        return order

    def _cost(self, position: int) -> int:
        unit = self._units[position]
        cost = self._costs[position]
        if not self._group_open[unit.group]:
            cost += self._group_costs[unit.group]
        if not self._line_open[unit.line]:
            cost += self._line_costs[unit.line]
        return cost

    def _score(self, position: int) -> float:
        left = self._left
        gain = sum([left[concept] for concept in self._worth.by_unit[position]])
        gain *= self._worth.factors[position]
        pattern = self._worth.patterns[position]
        if pattern in self._told:
            gain *= math.pow(REPEATED, self._told[pattern])
        return gain / math.pow(max(1, self._cost(position)), COST_POWER)

    def _take(self, position: int) -> list[int]:
        """Marks a unit taken; returns the siblings that have become cheaper."""
        unit = self._units[position]
        self._taken[position] = 1
        for concept in self._worth.by_unit[position]:
            self._left[concept] *= self._worth.decays[concept]
        if (pattern := self._worth.patterns[position]) >= 0:
            self._told[pattern] = self._told.get(pattern, 0) + 1
        cheaper: list[int] = []
        if not self._line_open[unit.line]:
            cheaper = self._by_line[unit.line]
        elif not self._group_open[unit.group]:
            cheaper = self._by_group[unit.group]
        self._line_open[unit.line] = self._group_open[unit.group] = 1
        return [other for other in cheaper if not self._taken[other]]
