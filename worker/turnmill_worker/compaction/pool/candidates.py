"""What a summary is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from turnmill.contract.rules import Rule
from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.pool.pooled import PooledLine, units_of
from turnmill_worker.compaction.pool.ranked import Ranked
from turnmill_worker.old_reading.earlier_summary import add_previous
from turnmill_worker.old_reading.units import Units
from turnmill_worker.old_reading.updates import Told

__all__ = ["Candidates"]


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
        in_force: Sequence[Rule] = (),
    ) -> None:
        """Ranks nothing yet.

        Args:
            newer: what the newly covered turns say.
            pool: what is left of those before.
            previous: a summary this package made; it counts only where there is no pool.
            pool_tokens: most tokens, roughly, of the pool to be made.
            in_force: the rules that hold now: sentences that say otherwise are past.
        """
        self._pool_tokens = pool_tokens
        self.earlier_lines = tuple(pool)
        self._older = units_of(pool)
        if not pool:
            add_previous(self._older, previous)
        self.told = Told(self._older, newer, in_force=in_force)
        self._ranked: dict[int, Ranked] = {}
        self._pools: dict[int, tuple[PooledLine, ...]] = {}
        self._outdated: dict[int, set[int]] = {}

    def text(
        self,
        budget_tokens: int,
        count: CountText,
        *,
        without_said_in: AbstractSet[int | None] = frozenset(),
        stated: Sequence[tuple[int, str]] = (),
        more_tokens: int = 0,
    ) -> str:
        """The most telling parts, within the budget by exact count, and ``more_tokens`` of them.

        What users said in the turns of some seqs stands beside it, and so do texts ``stated`` in
        others: neither is said twice. What states an old value as current would not pass.
        """
        ranked = self._rank(budget_tokens, count)
        beside = ranked.units.said_in(without_said_in) | ranked.units.within(stated)
        without = beside | self._stating_old_values(budget_tokens, ranked)
        return ranked.text(budget_tokens + more_tokens, count, without)

    def pool(self, budget_tokens: int, count: CountText) -> tuple[PooledLine, ...]:
        """What stays for the summaries after this one, beside one of this budget."""
        found = self._pools.get(budget_tokens)
        if found is None:
            found = self._pools[budget_tokens] = self._rank(budget_tokens, count).pool
        return found

    def earlier(self, budget_tokens: int, count: CountText) -> str:
        """The most telling original passages of turns covered before; ``""`` where none is kept."""
        if not self.earlier_lines:
            return ""
        ranked = Ranked.of(self._older, {}, budget_tokens, count)
        return ranked.text(budget_tokens, count, frozenset())

    def _stating_old_values(self, budget_tokens: int, ranked: Ranked) -> AbstractSet[int]:
        if budget_tokens not in self._outdated:
            past = self.told.replaced.stating([ranked.texts[position] for position in ranked.order])
            self._outdated[budget_tokens] = {ranked.order[at] for at in past}
        return self._outdated[budget_tokens]

    def _rank(self, budget_tokens: int, count: CountText) -> Ranked:
        found = self._ranked.get(budget_tokens)
        if found is None:
            found = self._ranked[budget_tokens] = Ranked.of(
                self.told.whole,
                self.told.past,
                budget_tokens,
                count,
                news=self.told.news,
                pool_tokens=self._pool_tokens,
            )
        return found
