"""What units cost in a summary, and how many of them a budget holds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import count as counting_up
from typing import Final, NamedTuple

from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.pool.rendering import is_told, opening
from turnmill_worker.old_reading.units import Line, Source, Unit

__all__ = ["Costs", "longest_beginning"]

_GUESSES: Final = 6


class Costs(NamedTuple):
    """Tokens, counted part by part: of a text they are near, not exact.

    Attributes:
        texts: of each unit's text behind a space.
        groups: of what opens each group.
        lines: of what opens each line.
    """

    texts: Sequence[int]
    groups: Sequence[int]
    lines: Sequence[int]

    @classmethod
    def of(
        cls, lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str], count: CountText
    ) -> Costs:
        """What these units cost with these texts."""
        told: dict[str, Source] = {}
        groups = [1] * (units[-1].group + 1)
        for unit in units:
            if unit.label and groups[unit.group] == 1:
                groups[unit.group] = count(f"; {unit.label}:")
        return cls(
            [count(f" {text}") for text in texts],
            groups,
            [count(f"\n{opening(line, named=is_told(line, told))}") for line in lines],
        )

    def added_up(self, units: Sequence[Unit], order: Sequence[int]) -> list[int]:
        """The cost of each beginning of an order."""
        opened: set[int] = set()
        sums, total = [], 0
        for position in order:
            line = units[position].line
            total += self.texts[position] + (0 if line in opened else self.lines[line])
            opened.add(line)
            sums.append(total)
        return sums


def longest_beginning(
    sums: Sequence[int], budget: int, text_of: Callable[[int], str], count: CountText
) -> tuple[int, str]:
    """How many of the first units fit, by exact count, and their text; ``sums`` of near costs."""
    best = ""
    low, high, guess = 0, len(sums), bisect_right(sums, budget)
    for tried in counting_up():
        if low >= high:
            break
        # Costs nearly add up, so a guess is near; halving bounds bad luck.
        at = min(max(guess, low + 1), high) if tried < _GUESSES else (low + high + 1) // 2
        text = text_of(at)
        tokens = count(text)
        if tokens <= budget:
            best, low = text, at
        else:
            high = at - 1
        guess = bisect_right(sums, sums[at - 1] + budget - tokens)
    return low, best
