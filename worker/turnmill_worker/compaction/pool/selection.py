"""The order in which units earn their place: the best gain for its cost first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

from turnmill_worker.compaction.pool.unit_worth import Worth
from turnmill_worker.old_reading.units import Unit

COST_POWER: Final = 0.85
"""Below 1, so that a long unit full of facts is not beaten by every scrap of one fact."""

REPEATED: Final = 0.5
"""What a sentence is worth each time one like it, numbers aside, is already kept."""


_Entry = tuple[float, int, int]
"""A unit's score, negative; its position; its pattern."""


class _Queue:
    """Units of one pattern, best first, and what share of their worth is left to all of them.

    One sentence kept makes a thousand like it worth less: each of them is not scored anew.
    """

    __slots__ = ("_offered", "_pattern", "share", "units")

    def __init__(self, pattern: int) -> None:
        self.units: list[tuple[float, int]] = []
        self.share = 1.0
        self._pattern = pattern
        self._offered: _Entry | None = None

    @property
    def best(self) -> float:
        """The negative score of its best unit, or more; 0 when there is none."""
        return self.units[0][0] * self.share if self.units else 0.0

    def offer(self, heap: list[_Entry]) -> None:
        """Enters its best unit among those of all queues, in place of the one it entered before."""
        if self.units:
            entry = (self.best, self.units[0][1], self._pattern)
            if entry != self._offered:
                self._offered = entry
                heapq.heappush(heap, entry)

    def is_offering(self, entry: _Entry) -> bool:
        """Whether the entry stands; if so it is used up."""
        if entry != self._offered:
            return False
        self._offered = None
        return True


class _Powers(dict[int, float]):
    """What costs are divided by."""

    def __missing__(self, cost: int) -> float:
        found = self[cost] = math.pow(max(1, cost), COST_POWER)
        return found


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
        self._worth = worth
        self._costs = costs
        self._group_costs = list(group_costs)
        self._line_costs = list(line_costs)
        self._by_unit, self._factors = worth.by_unit, worth.factors
        self._places = [(unit.line, unit.group) for unit in units]
        self._powers = _Powers()
        self._left = list(worth.weights)
        self._left_of = self._left.__getitem__
        self._line_open = bytearray(len(line_costs))
        self._group_open = bytearray(len(group_costs))
        self._taken = bytearray(len(units))
        self._queues = {pattern: _Queue(pattern) for pattern in worth.patterns}
        self._heap: list[_Entry] = []
        self._by_line: list[list[int]] = [[] for _ in line_costs]
        self._by_group: list[list[int]] = [[] for _ in group_costs]
        for position, unit in enumerate(units):
            self._by_line[unit.line].append(position)
            self._by_group[unit.group].append(position)

    def run(self, limit: int) -> list[int]:
        """Units in the order taken, while their estimated costs stay within `limit`."""
        self._enqueue(range(len(self._places)))
        order: list[int] = []
        cheapest = max(min(self._costs, default=1), 1)
        while self._heap and limit >= cheapest:
            entry = heapq.heappop(self._heap)
            queue = self._queues[entry[2]]
            if not queue.is_offering(entry):
                continue
            position = self._best_of(queue)
            if position is not None and (cost := self._cost(position)) <= limit:
                limit -= cost
                order.append(position)
                if cheaper := self._take(position):
                    self._enqueue(cheaper)
            queue.offer(self._heap)
        return order

    def _enqueue(self, positions: Sequence[int]) -> None:
        """Queues units by what they are worth now."""
        own = [self._queues[self._worth.patterns[position]] for position in positions]
        for position, queue in zip(positions, own, strict=True):
            heapq.heappush(queue.units, (-self._score(position), position))
        for queue in dict.fromkeys(own):
            queue.offer(self._heap)

    def _best_of(self, queue: _Queue) -> int | None:
        """The queue's best unit, if it is still as good as all others; else it is queued anew."""
        position = heapq.heappop(queue.units)[1]
        if self._taken[position]:
            return None
        score = self._score(position)
        now = -score * queue.share
        if now >= 0:
            return None
        if now > queue.best or (self._heap and now > self._heap[0][0]):
            heapq.heappush(queue.units, (-score, position))
            return None
        return position

    def _cost(self, position: int) -> int:
        """A unit's own tokens, and those of what it opens: both are nothing once it is open."""
        line, group = self._places[position]
        return self._costs[position] + self._group_costs[group] + self._line_costs[line]

    def _score(self, position: int) -> float:
        """What it is worth for its cost, were none of its pattern kept."""
        line, group = self._places[position]
        cost = self._costs[position] + self._group_costs[group] + self._line_costs[line]
        gain = sum(map(self._left_of, self._by_unit[position]))
        return gain * self._factors[position] / self._powers[cost]

    def _take(self, position: int) -> list[int]:
        """Marks a unit taken; returns the siblings that have become cheaper."""
        line, group = self._places[position]
        self._taken[position] = 1
        for concept in self._by_unit[position]:
            self._left[concept] *= self._worth.decays[concept]
        if (pattern := self._worth.patterns[position]) >= 0:
            self._queues[pattern].share *= REPEATED
        cheaper: list[int] = []
        if not self._line_open[line]:
            cheaper = self._by_line[line]
        elif not self._group_open[group]:
            cheaper = self._by_group[group]
        self._line_open[line] = self._group_open[group] = 1
        self._line_costs[line] = self._group_costs[group] = 0
        return [other for other in cheaper if not self._taken[other]]
