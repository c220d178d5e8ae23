"""The order in which the parts of what was said earn their place in a summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from turnmill.contract.marks import quoted_lines
from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.pool.again import NOTHING, Again, again
from turnmill_worker.compaction.pool.beside_calls import beside_calls
from turnmill_worker.compaction.pool.costs import Costs, longest_beginning
from turnmill_worker.compaction.pool.factors import is_filling_slots
from turnmill_worker.compaction.pool.heads import Heads, costs_with_names, heads_of, with_heads
from turnmill_worker.compaction.pool.past import (
    all_marked,
    by_news,
    saying_nothing_else,
    with_news,
)
from turnmill_worker.compaction.pool.pooled import PooledLine, pooled
from turnmill_worker.compaction.pool.rendering import render
from turnmill_worker.compaction.pool.selection import Selection
from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.compaction.pool.telegraph import is_english, telegraph
from turnmill_worker.compaction.pool.unit_worth import Worth, appraise
from turnmill_worker.old_reading.units import TALK, Line, Source, Unit, Units
from turnmill_worker.old_reading.updates import Newer, newest_first

__all__ = ["Ranked"]

_CHARS_PER_TOKEN: Final = 16
"""More characters per token than any text has: past it, counting tokens only wastes time."""

_USER_SHARE: Final = 0.5
"""Up to this share of the budget, what the user said is not put into telegraph style."""

_MOSTLY_TALK: Final = 0.75
"""Where less is talk, tools tell what is asked for again: telegraph style gains no room for it."""

_SMALLER_TRIED: Final = 16
"""Units tried, in order, in the room that was too small for the next best one."""

_NEARLY: Final = 4
"""What a unit may cost less beside others than alone."""

_NOTHING: Final = Costs((), (), ())


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
    heads: Heads = field(default_factory=dict)
    again: Again = NOTHING

    @classmethod
    def of(
        cls,
        units: Units,
        past: Mapping[int, Sequence[Newer]],
        budget: int,
        count: CountText,
        *,
        news: AbstractSet[int] = frozenset(),
        pool_tokens: int = 0,
    ) -> Ranked:
        """The ranking for a summary of this budget; it reaches as far as the pool does."""
        lines, own = units.lines, units.units
        if not own or budget <= 0:
            return cls(units, [], [], [], {})
        repeated = again(lines, own)
        verbatim = repeated.noted(all_marked([unit.text for unit in own], past))
        if sum(map(len, verbatim)) <= budget * _CHARS_PER_TOKEN:
            everything = range(len(own))
            if count(render(lines, own, verbatim, everything)) <= budget:
                costs = Costs.of(lines, own, verbatim, count)
                standings = with_news(first_standings(lines, own), news)
                return cls(units, verbatim, everything, standings, past, costs, again=repeated)
        texts = all_marked(_shortened(lines, own, _spared(lines, own, budget, count)), past)
        texts = repeated.noted(texts)
        most = max(pool_tokens, budget + budget // 5 + 16)
        costs = Costs.of(lines, own, texts, count)
        worth = by_news(appraise(lines, own, texts, costs.texts, budget), own, past, news)
        heads = heads_of(lines, own)
        whole = costs._replace(texts=costs_with_names(costs.texts, heads, lines, own))
        selected = _order(own, worth, whole, most)
        selected = beside_calls(selected, lines, own, worth, costs.texts, repeated)
        order = with_heads(newest_first(selected, past), heads)
        return cls(units, texts, order, worth.standings, past, costs, heads, repeated)

    @property
    def pool(self) -> tuple[PooledLine, ...]:
        """All that is ranked, word for word."""
        return pooled(self.units, self.order, self.standings)

    def text(self, budget: int, count: CountText, without: AbstractSet[int]) -> str:
        """The longest beginning of the order, ``without`` some, that is within the budget."""
        without = without | saying_nothing_else(self.units.units, self.past)
        order = [at for at in self.again.once(self.order) if at not in without]
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
            more = [at for at in (*self.heads.get(position, ()), position) if at not in chosen]
            candidate = rendered([*chosen, *more])
            if (tokens := count(candidate)) <= budget:
                best, left = candidate, budget - tokens
                chosen += more
        return best

    def _rendered(self, chosen: Sequence[int]) -> str:
        return render(self.units.lines, self.units.units, self.texts, chosen)


def _spared(
    lines: Sequence[Line], units: Sequence[Unit], budget: int, count: CountText
) -> frozenset[Source]:
    """Whose words stay as they were said.

    All, beside tools; else the user's, while they are a small part of the budget.
    """
    talk = whole = 0
    for unit in units:
        chars = len(unit.text)
        whole += chars
        talk += chars * (lines[unit.line].source in TALK)
    if talk < _MOSTLY_TALK * whole and not is_filling_slots(lines, units):
        return TALK
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
