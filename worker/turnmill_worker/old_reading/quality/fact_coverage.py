"""What a conversation states, and how much of it another text still states.

A *fact* is an identifier, a name or a word worth keeping; a *passage* is what states facts
together. A text holds a fact where it names it, and a passage where it says as much of it in one
place: an order's number without what was said of the order is of little use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from turnmill_worker.compaction.quality.passages import Passage
from turnmill_worker.old_reading.units import Source
from turnmill_worker.old_reading.words import CAPS, CODE, NUMBER, WORD, Concept, numbered

__all__ = [
    "NEWEST",
    "OLDEST",
    "ONLY_IN_RESULTS",
    "REPEATED",
    "SAID_BY_USER",
    "USED_IN_CALL",
    "Facts",
    "Held",
]

_COMPANY: Final = 3
"""How many concepts of a passage must meet again for it to be held; all, if it has fewer."""

_MOST_PLACES: Final = 16
"""A fact met more often is looked for in its newest passages only, which keeps this linear."""

# Chosen on the data of `docs/quality-score.md`; no single one matters much.
_BASE: Final = {CODE: 8.0, CAPS: 2.0, NUMBER: 1.5, WORD: 0.12}
"""A word's weight is multiplied by its rarity."""

_NAMED: Final = 1.0
_GUARD: Final = 1.0
SAID_BY_USER: Final = 2.0
USED_IN_CALL: Final = 2.0
REPEATED: Final = 0.3
ONLY_IN_RESULTS: Final = 0.25
"""Most of what a tool lists is never asked for again; nor what a system message says, which an
agent is given anyway."""

OLDEST: Final = 0.7
NEWEST: Final = 0.3


class _Seen:
    """Where concepts were met, by their numbers."""

    def __init__(
        self,
        numbers: Mapping[Concept, int],
        passages: Sequence[Passage],
        own: Sequence[Sequence[int]],
    ) -> None:
        self.places: list[list[int]] = [[] for _ in numbers]
        stated: dict[Source, set[int]] = {source: set() for source in Source}
        for at, (passage, concepts) in enumerate(zip(passages, own, strict=True)):
            for number in concepts:
                self.places[number].append(at)
            stated[passage.source].update(concepts[: passage.stated])
        named = chain.from_iterable([each.named for each in passages])
        self.named = set(map(numbers.__getitem__, named))
        self.stated = set[int]().union(*stated.values())
        self.by_user, self.in_call = stated[Source.USER], stated[Source.CALL]
        del stated[Source.RESULT], stated[Source.SYSTEM]
        self.elsewhere = set[int]().union(*stated.values())

    def weight(self, number: int, kind: str, rarity: float, total: int) -> float:
        """What a concept weighs, of so many passages; 0 for what is only ever a field name."""
        if number not in self.stated:
            return 0.0
        places = self.places[number]
        weight = _BASE[kind] * (rarity if kind == WORD else 1.0) + _NAMED * (number in self.named)
        said_or_used = SAID_BY_USER * (number in self.by_user)
        weight *= 1.0 + said_or_used + USED_IN_CALL * (number in self.in_call)
        weight *= 1.0 + REPEATED * math.log(len(places))
        weight *= 1.0 if number in self.elsewhere else ONLY_IN_RESULTS
        # Squared, so that age costs little until it is recent turns it is compared with.
        return weight * (OLDEST + NEWEST * ((places[-1] + 1) / total) ** 2)


@dataclass(frozen=True, slots=True)
class Held:
    """How much of each fact, passage and guard some text holds, from 0 to 1.

    A fact is held where it occurs at all. A passage is held by the share of its facts that occur
    together in one passage again. A *guard* is the "not", "if" or "except" of a passage.
    """

    facts: Sequence[float]
    passages: Sequence[float]
    guards: Sequence[float]

    def joined(self, other: Held) -> Held:
        """What this and another text hold together."""
        return Held(
            facts=list(map(max, self.facts, other.facts)),
            passages=list(map(max, self.passages, other.passages)),
            guards=list(map(max, self.guards, other.guards)),
        )

    def times(self, share: float) -> Held:
        """A share of all that is held."""
        facts, passages, guards = (
            [share * each for each in held] for held in (self.facts, self.passages, self.guards)
        )
        return Held(facts, passages, guards)


class Facts:
    """What passages state, each fact weighed by how likely it is to be needed again.

    Attributes:
        passages: the concepts of each passage, by number.
        weights: of each concept; 0 for what is only ever a field name.
        passage_weights: of each passage; a fact's weight is divided among those that state it.
        guard_weights: of each passage's guard; 0 where there is none.
        rarity: of each concept; the rarer, the more it says about what a text is about.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        numbers = numbered([passage.concepts for passage in passages])
        self.passages = [tuple(map(numbers.__getitem__, passage.concepts)) for passage in passages]
        seen = _Seen(numbers, passages, self.passages)
        self._number = numbers.get
        total = len(passages)
        kinds = [kind for kind, _ in numbers]
        self.rarity = [math.log(1 + total / len(places)) for places in seen.places]
        self.weights = [
            seen.weight(number, kind, rarity, total)
            for number, (kind, rarity) in enumerate(zip(kinds, self.rarity, strict=True))
        ]
        self._places = [places[-_MOST_PLACES:] for places in seen.places]
        self._shares = [w / len(at) for w, at in zip(self.weights, self._places, strict=True)]
        # Words and names of fields; the others are bare identifiers.
        self._saying = {
            number for number, kind in enumerate(kinds) if kind == WORD or number not in seen.stated
        }
        self._guarded = [passage.guarded for passage in passages]
        self._holding: list[set[int]] = [set() for _ in passages]
        self.passage_weights = [0.0] * total
        for number, (places, share) in enumerate(zip(self._places, self._shares, strict=True)):
            for at in places:
                self._holding[at].add(number)
                self.passage_weights[at] += share
        self._needed = [min(_COMPANY, len(holding)) for holding in self._holding]
        self._mute = [self._saying.isdisjoint(holding) for holding in self._holding]
        self.guard_weights = [
            _guard_weight(passage) if needed else 0.0
            for passage, needed in zip(passages, self._needed, strict=True)
        ]

    def numbers(self, passage: Passage) -> list[int]:
        """The numbers of another passage's concepts that are known here."""
        found = map(self._number, passage.concepts)
        return [number for number in found if number is not None]

    def held(self, passages: Iterable[Passage]) -> Held:
        """How much these other passages hold. Linear in their length."""
        known: set[int] = set()
        best = [0.0] * len(self.passages)
        guards = [0.0] * len(self.passages)
        for passage in passages:
            numbers = self.numbers(passage)
            known.update(numbers)
            for at, weight in self._again(numbers, guarded=passage.guarded):
                best[at] = max(best[at], weight)
                guards[at] = 1.0
        shares = [
            min(1.0, weight / whole) if whole > 0 else 1.0
            for weight, whole in zip(best, self.passage_weights, strict=True)
        ]
        facts = [float(number in known) for number in range(len(self._places))]
        return Held(facts, shares, guards)

    def _again(self, numbers: Sequence[int], *, guarded: bool) -> Iterator[tuple[int, float]]:
        """The passages here of which enough is met again to say the same, and how much is met.

        A list of bare identifiers does not say it, nor does a sentence that has lost its "not".
        """
        places, needed, share_of = self._places, self._needed, self._shares.__getitem__
        times = Counter(chain.from_iterable([places[number] for number in numbers]))
        for at in [at for at, met in times.items() if met >= needed[at]]:
            if guarded or not self._guarded[at]:
                again = list(filter(self._holding[at].__contains__, numbers))
                if self._mute[at] or not self._saying.isdisjoint(again):
                    yield at, sum(map(share_of, again))


def _guard_weight(passage: Passage) -> float:
    if not passage.guarded:
        return 0.0
    said_by_user = 1.0 + SAID_BY_USER * (passage.source is Source.USER)
    return _GUARD * said_by_user * (ONLY_IN_RESULTS if passage.source is Source.RESULT else 1.0)
