"""What a summary is chosen from, and the order in which its parts earn their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from turnmill.contract.marks import quoted_lines
from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.pool.costs import Costs, longest_beginning
from turnmill_worker.compaction.pool.past import (
    all_marked,
    past_worth_less,
    saying_nothing_else,
)
from turnmill_worker.compaction.pool.pooled import PooledLine, pooled, units_of
from turnmill_worker.compaction.pool.rendering import render
from turnmill_worker.compaction.pool.selection import Selection
from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.compaction.pool.telegraph import is_english, telegraph
from turnmill_worker.compaction.pool.unit_worth import Worth, appraise
from turnmill_worker.reading.earlier_summary import add_previous
from turnmill_worker.reading.units import TALK, Line, Source, Unit, Units
from turnmill_worker.reading.updates import Newer, Told, newest_first, superseded_in

__all__ = ["Candidates", "Ranked"]

_CHARS_PER_TOKEN: Final = 16
"""More characters per token than any text has: past it, counting tokens only wastes time."""

_USER_SHARE: Final = 0.5
"""Up to this share of the budget, what the user said is not put into telegraph style."""

_SMALLER_TRIED: Final = 16
"""Units tried, in order, in the room that was too small for the next best one."""

_NEARLY: Final = 4
"""What a unit may cost less beside others than alone."""

_NOTHING: Final = Costs((), (), ())


class Candidates:
    """The pool, or else the summary before it, and what the newly covered turns say.

    Ranked once: the summary takes the best of the ranking, the next pool a longer beginning.
    """

    def __init__(
        self,
        newer: Units,
        pool: Sequence[PooledLine] = (),
        *,
        previous: str = "",
        pool_tokens: int = 0,
    ) -> None:
        """Ranks nothing yet.

        Args:
            newer: what the newly covered turns say.
            pool: what is left of those before.
            previous: a summary this package made; it counts only where there is no pool.
            pool_tokens: most tokens, roughly, of the pool to be made.
        """
        self._pool_tokens = pool_tokens
        self.earlier_lines = tuple(pool)
        self._older = units_of(pool)
        if not pool:
            add_previous(self._older, previous)
        self.told = Told(self._older, newer)
        self._ranked: dict[int, Ranked] = {}

    def text(
        self,
        budget_tokens: int,
        count: CountText,
        *,
        without_said_in: AbstractSet[int | None] = frozenset(),
        stated: Sequence[tuple[int, str]] = (),
    ) -> str:
        """The most telling parts, within the budget by exact count.

        What users said in the turns of some seqs stands beside it, and so do texts ``stated`` in
        others: neither is said twice.
        """
        ranked = self._rank(budget_tokens, count)
        beside = ranked.units.said_in(without_said_in) | ranked.units.within(stated)
        return ranked.text(budget_tokens, count, beside)

    def pool(self, budget_tokens: int, count: CountText) -> tuple[PooledLine, ...]:
        """What stays for the summaries after this one, beside one of this budget."""
        return self._rank(budget_tokens, count).pool

    def earlier(self, budget_tokens: int, count: CountText) -> str:
        """The most telling original passages of turns covered before; ``""`` where none is kept."""
        if not self.earlier_lines:
            return ""
        ranked = Ranked.of(self._older, {}, budget_tokens, count)
        return ranked.text(budget_tokens, count, frozenset())

    def _rank(self, budget_tokens: int, count: CountText) -> Ranked:
        found = self._ranked.get(budget_tokens)
        if found is None:
            past = superseded_in(self.told)
            found = self._ranked[budget_tokens] = Ranked.of(
                self.told.whole, past, budget_tokens, count, pool_tokens=self._pool_tokens
            )
        return found


@dataclass(frozen=True, slots=True)
class Ranked:
    """Units with the text each would have in a summary, and their positions, best first.

    What a later one has made ``past`` is marked, and stands behind what did in the order.
    """

    units: Units
    texts: Sequence[str]
    order: Sequence[int]
    standings: Sequence[float]
    past: Mapping[int, Sequence[Newer]]
    costs: Costs = _NOTHING

    @classmethod
    def of(
        cls,
        units: Units,
        past: Mapping[int, Sequence[Newer]],
        budget: int,
        count: CountText,
        *,
        pool_tokens: int = 0,
    ) -> Ranked:
        """The ranking for a summary of this budget; it reaches as far as the pool does."""
        lines, own = units.lines, units.units
        if not own or budget <= 0:
            return cls(units, [], [], [], {})
        verbatim = all_marked([unit.text for unit in own], past)
        if sum(map(len, verbatim)) <= budget * _CHARS_PER_TOKEN:
            everything = range(len(own))
            if count(render(lines, own, verbatim, everything)) <= budget:
                costs = Costs.of(lines, own, verbatim, count)
                standings = list(first_standings(lines, own))
                return cls(units, verbatim, everything, standings, past, costs)
        texts = all_marked(_shortened(lines, own, _spared(lines, own, budget, count)), past)
        worth = past_worth_less(appraise(lines, own, texts), own, past)
        most = max(pool_tokens, budget + budget // 5 + 16)
        costs = Costs.of(lines, own, texts, count)
        order = newest_first(_order(own, worth, costs, most), past)
        return cls(units, texts, order, worth.standings, past, costs)

    @property
    def pool(self) -> tuple[PooledLine, ...]:
        """All that is ranked, word for word."""
        return pooled(self.units, self.order, self.standings)

    def text(self, budget: int, count: CountText, without: AbstractSet[int]) -> str:
        """The longest beginning of the order, ``without`` some, that is within the budget."""
        without = without | saying_nothing_else(self.units.units, self.past)
        order = [position for position in self.order if position not in without]
        best = self._best(order, budget, count, self._rendered)
        if quoted_lines(best) == best:
            return best
        # Few texts hold what reads as a mark: only those are quoted before they are counted.
        return self._best(order, budget, count, lambda chosen: quoted_lines(self._rendered(chosen)))

    def _best(
        self,
        order: Sequence[int],
        budget: int,
        count: CountText,
        rendered: Callable[[Sequence[int]], str],
    ) -> str:
        fits, best = longest_beginning(
            self.costs.added_up(self.units.units, order),
            budget,
            lambda most: rendered(order[:most]),
            count,
        )
        chosen = list(order[:fits])
        left = budget - count(best)
        for position in order[fits + 1 : fits + 1 + _SMALLER_TRIED]:
            if self.costs.texts[position] > left + _NEARLY:
                continue
            if any(newer.unit not in chosen for newer in self.past.get(position, ())):
                continue
            candidate = rendered([*chosen, position])
            if (tokens := count(candidate)) <= budget:
                best, left = candidate, budget - tokens
                chosen.append(position)
        return best

    def _rendered(self, chosen: Sequence[int]) -> str:
        return render(self.units.lines, self.units.units, self.texts, chosen)


def _spared(
    lines: Sequence[Line], units: Sequence[Unit], budget: int, count: CountText
) -> frozenset[Source]:
    """Whose words stay as they were said: the user's, while they are a small part of the budget."""
    said = " ".join(unit.text for unit in units if lines[unit.line].source is Source.USER)
    room = int(budget * _USER_SHARE)
    fits = len(said) <= room * _CHARS_PER_TOKEN and count(said) <= room
    return frozenset({Source.USER}) if fits else frozenset()


def _shortened(
    lines: Sequence[Line], units: Sequence[Unit], spared: AbstractSet[Source]
) -> list[str]:
    """Every unit's text, in telegraph style where somebody wrote it in English."""
    shortened = TALK - spared
    texts: list[str] = []
    for line, members in groupby(units, key=lambda unit: unit.line):
        own = [unit.text for unit in members]
        may = not lines[line].settled and lines[line].source in shortened
        prose = may and is_english(own)
        texts.extend(telegraph(text) if prose else text for text in own)
    return texts


def _order(units: Sequence[Unit], worth: Worth, costs: Costs, most_tokens: int) -> list[int]:
    """The units that about fill so many tokens, best first, by costs added up from their parts."""
    selection = Selection(
        units,
        worth,
        costs=costs.texts,
        group_costs=costs.groups,
        line_costs=costs.lines,
    )
    return selection.run(most_tokens)
