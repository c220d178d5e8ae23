"""What a context may lose of what it stands for, and what of that survives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill_worker.compaction.quality.fact_coverage import Facts
from turnmill_worker.compaction.quality.passages import head_units, passages_of
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Units

__all__ = ["AtStake", "Survival"]

_NOT_AT_STAKE: Final = 0.1
"""The weight of a fact that the tail states too: no summary could have lost it."""

_STATED_BESIDE: Final = 0.25
"""The same of what a rule or a request states: the compaction kept it, but no summary did."""

_NEWEST_MESSAGES: Final = 3
"""The user's newest messages in the tail that tell what the conversation is about now."""


class AtStake:
    """What a head may lose, and what the tail, rules and requests hold of it anyway."""

    def __init__(
        self,
        covered: Units,
        lost: Sequence[JsonMessage],
        tail: Sequence[JsonMessage],
        safe: Sequence[JsonMessage],
    ) -> None:
        self.lost, self.safe = lost, safe
        older = list(passages_of(head_units(lost)))
        self.facts = Facts([*older, *passages_of(covered)])
        self.older = len(older)
        in_tail = self.facts.held(passages_of(read_units(_unplaced(tail))))
        beside = self.facts.held(passages_of(head_units(safe)))
        self.held = in_tail.joined(beside)
        self.known = in_tail.times(_NOT_AT_STAKE).joined(beside.times(_STATED_BESIDE))
        said = [message for message in tail if message.get("role") == "user"] or list(tail)
        newest = passages_of(read_units(_unplaced(said[-_NEWEST_MESSAGES:])))
        self.asked = {number for passage in newest for number in self.facts.numbers(passage)}


class Survival:
    """Weights of facts at stake, and of those that survive."""

    def __init__(self, stake: AtStake, head: Sequence[JsonMessage]) -> None:
        facts, held = stake.facts, stake.held
        after = held.joined(facts.held(passages_of(head_units(head))))
        self._facts, self._older, self._asked = facts, stake.older, stake.asked
        known = stake.known
        self._by_fact = _at_stake(facts.weights, known.facts, held.facts, after.facts)
        self._by_passage = _at_stake(
            facts.passage_weights, known.passages, held.passages, after.passages
        )
        self._by_guard = _at_stake(facts.guard_weights, known.guards, held.guards, after.guards)

    def of_everything(self) -> float:
        """The share of facts, passages and guards that survives, by weight.

        The share of the older summary or that of the covered turns, whichever is less: keeping
        the one does not make up for losing the other.
        """
        whole = len(self._facts.passages)
        return min(
            self._of(range(self._older)),
            self._of(range(self._older, whole)),
        )

    def _of(self, part: range) -> float:
        stated = {number for at in part for number in self._facts.passages[at]}
        pairs = [self._by_fact[number] for number in sorted(stated)]
        pairs += [pair for at in part for pair in (self._by_passage[at], self._by_guard[at])]
        return _share(pairs)

    def of_what_matters_now(self) -> float:
        """The share of passages that survives, by how much of the newest turns they speak of.

        The share of everything, when none speaks of them.
        """
        rarity = self._facts.rarity
        pairs = []
        for numbers, (kept, stake) in zip(self._facts.passages, self._by_passage, strict=True):
            near = sum(rarity[number] for number in numbers if number in self._asked)
            pairs.append((near * kept, near * stake))
        return _share(pairs) if any(stake for _, stake in pairs) else self.of_everything()


def _share(pairs: Iterable[tuple[float, float]]) -> float:
    """The share of what was at stake that survives; 1 when nothing was at stake."""
    kept, stake = (sum(side) for side in zip((0.0, 0.0), *pairs, strict=True))
    return min(1.0, kept / stake) if stake > 0 else 1.0


def _unplaced(messages: Iterable[JsonMessage]) -> list[tuple[Seq, JsonMessage]]:
    return [(Seq(0), message) for message in messages]


def _at_stake(
    weights: Sequence[float],
    known: Sequence[float],
    safe: Sequence[float],
    after: Sequence[float],
) -> list[tuple[float, float]]:
    """The weight that survives, and the weight that was at stake, of every fact."""
    return [
        (weight * (base + held - sure), weight * (base + 1.0 - sure))
        for weight, base, sure, held in zip(weights, known, safe, after, strict=True)
    ]
