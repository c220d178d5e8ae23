"""What passages are worth for a question, read from as few postings as the answer allows."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnmill.contract.names import SessionId
from turnmill_worker.grounding.adjacent_turns import Neighbours
from turnmill_worker.grounding.passages import Passages
from turnmill_worker.grounding.postings import UNIT, Postings, addend
from turnmill_worker.grounding.terms import SAYING, query_terms
from turnmill_worker.grounding.voices import Voices

__all__ = ["Asked", "Scoring"]

MOST: Final = addend(0.5)
"""What all turns nearby lend at most: less than a term is worth where it is said."""

_COMMON: Final = 32
_COMMON_SHARE: Final = 0.1
_COMMON_MOST: Final = 500
"""A term in more passages than the first two, or the last, says nothing about those nearby."""

TALK: Final = 0.5
"""What a verb of saying weighs in a question against another term as rare."""

_LONG_LIST: Final = 200
"""From this many postings on, it pays to check whether a common term can still matter."""

_MOST_READ: Final = 20_000
"""Postings read for one question before common terms stop nominating passages."""

_NOMINATED: Final = 256

_LOOKUP: Final = 4
"""Postings read in the time it takes to look up those of one passage."""

_BEST_OF: Final = 4
"""Passages looked at for one memory among the best."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the index understands it.

    Attributes:
        terms: those that some passage has, rarest first, with their rarity.
        weight: what all of its terms weigh.
        voices: what each voice weighs for it.
        within: the voices that are asked for; None for all.
    """

    terms: tuple[tuple[str, float], ...]
    weight: float
    voices: Sequence[float]
    within: Collection[int] | None = None


class Scoring:
    """BM25 over postings, with what is said nearby, and by whom."""

    def __init__(
        self, postings: Postings, passages: Passages, neighbours: Neighbours, voices: Voices
    ) -> None:
        self._postings = postings
        self._passages = passages
        self._neighbours = neighbours
        self._voices = voices

    def asked(self, query: str, session: SessionId | None = None) -> Asked:
        """Each term's rarity: Lucene's idf, which is never negative. Verbs of saying weigh less."""
        within = None if session is None else self._voices.of_session.get(session, set())
        size = len(self._postings)
        weighed: list[tuple[int, str, float]] = []
        terms = query_terms(query)
        for term in terms:
            found = self._postings.frequency(term)
            rarity = math.log(1 + (size - found + 0.5) / (found + 0.5))
            weighed.append((found, term, rarity * TALK if term in SAYING else rarity))
        weighed.sort()
        return Asked(
            terms=tuple((term, rarity) for found, term, rarity in weighed if found),
            weight=math.fsum(rarity for _, _, rarity in weighed),
            voices=self._voices.weights(terms),
            within=within,
        )

    def scores(self, asked: Asked, k: int) -> dict[int, float]:
        """Scores of the passages that can be the best of the best ``k`` memories, exact there.

        Rare terms come first. Once the rest together weigh less than the kth best score, passages
        without a rare term are out of reach, and the rest is looked up for the others only. Where
        that takes too much reading, the rare terms nominate the passages that are scored.
        """
        scores: dict[int, float] = {}
        read = 0
        for at, (term, rarity) in enumerate(asked.terms):
            frequency = self._postings.frequency(term)
            if len(scores) >= k and frequency > _LONG_LIST:
                near = self._within_reach(scores, asked, k, _weight(asked.terms[at:]))
                if near is None and read + frequency > _MOST_READ:
                    near = self._nominated(scores, asked, max(k, _NOMINATED))
                if near is not None and len(near) * _LOOKUP <= frequency:
                    return self._completed(near, asked, at)
            read += frequency
            self._add(scores, asked, term, rarity)
        return scores

    def best(self, scores: dict[int, float], asked: Asked, k: int) -> dict[int, float]:
        """The scores of the best ``k`` memories, and of all that equal the last of them.

        A memory has the score of its best passage, as much as its voice weighs.
        """
        totals = self._totals(scores, asked, self._bar(scores, asked, k))
        bar = heapq.nlargest(k, totals.values())[-1]
        return {memory: total for memory, total in totals.items() if total >= bar}

    def _bar(self, scores: dict[int, float], asked: Asked, k: int) -> float:
        """A score that ``k`` memories have; 0 if there may be fewer.

        They are looked for among the best passages, before what their voices weigh.
        """
        lowest = heapq.nlargest(_BEST_OF * k, scores.values())[-1]
        best = heapq.nlargest(k, self._totals(scores, asked, lowest).values())
        return best[-1] if len(best) == k else 0.0

    def _totals(self, scores: dict[int, float], asked: Asked, lowest: float) -> dict[int, float]:
        """Scores of the memories with a passage that has this score before it is weighed."""
        memory, voice, weights = self._passages.memory, self._voices.of, asked.voices
        totals: dict[int, float] = {}
        for number, score in scores.items():
            if score >= lowest:
                whose = memory[number]
                total = score * weights[voice[number]]
                if total > totals.get(whose, 0.0):
                    totals[whose] = total
        return totals

    def _completed(self, scores: dict[int, float], asked: Asked, start: int) -> dict[int, float]:
        """The scores with the terms from ``start`` on, looked up passage by passage."""
        for term, rarity in asked.terms[start:]:
            common = self._is_common(term)
            for number in scores:
                scores[number] += rarity * self._worth_at(term, number, common=common)
        return scores

    def _is_common(self, term: str) -> bool:
        """Whether so many passages have the term that one nearby says nothing."""
        most = max(_COMMON, min(_COMMON_SHARE * len(self._postings), _COMMON_MOST))
        return self._postings.frequency(term) > most

    def _add(self, scores: dict[int, float], asked: Asked, term: str, rarity: float) -> None:
        """Adds a term's worth to every passage that has it in itself or nearby."""
        lent = {} if self._is_common(term) else self._lent(term)
        within, voice = asked.within, self._voices.of
        own = self._postings.worths(term)
        get, take, exp = scores.get, lent.pop, math.exp
        for number, worth in own:
            if within is None or voice[number] in within:
                near = take(number, 0)
                # Without `min`: a call for each posting is 3 % of a search.
                missing = -near if near < MOST else -MOST
                told = 1 - (1 - worth) * exp(missing / UNIT) if near else worth
                scores[number] = get(number, 0.0) + rarity * told
        for number, near in lent.items():
            if within is None or voice[number] in within:
                missing = -near if near < MOST else -MOST
                scores[number] = get(number, 0.0) + rarity * (1 - exp(missing / UNIT))

    def _lent(self, term: str) -> dict[int, int]:
        """What the turns nearby lend to each memory, added up."""
        memory = self._passages.memory
        before, after = self._neighbours.before, self._neighbours.after
        lent: dict[int, int] = {}
        get = lent.get
        last = most_close = most_far = -1
        for number, close, far in self._postings.lent(term):
            whose = memory[number]
            more_close, more_far = close, far
            if whose == last:
                # A memory lends what its best passage does: only the difference is new.
                if close <= most_close:
                    continue
                more_close, more_far = close - most_close, far - most_far
            last, most_close, most_far = whose, close, far
            if (near := before[whose]) >= 0:
                lent[near] = get(near, 0) + more_far
            if (near := after[whose]) >= 0:
                lent[near] = get(near, 0) + more_close
                if (near := after[near]) >= 0:
                    lent[near] = get(near, 0) + more_far
        return lent

    def _worth_at(self, term: str, number: int, *, common: bool) -> float:
        """What ``_add`` adds, for one passage."""
        worth = self._postings.worth_at(term, number)
        memory = self._passages.memory[number]
        if common or number != memory:
            return worth
        lent = 0
        if (near := self._neighbours.after[memory]) >= 0:
            lent += self._postings.lent_by(term, self._passages.of(near))[1]
        if (near := self._neighbours.before[memory]) >= 0:
            lent += self._postings.lent_by(term, self._passages.of(near))[0]
            if (near := self._neighbours.before[near]) >= 0:
                lent += self._postings.lent_by(term, self._passages.of(near))[1]
        return 1 - (1 - worth) * math.exp(-min(lent, MOST) / UNIT) if lent else worth

    def _within_reach(
        self, scores: dict[int, float], asked: Asked, k: int, left: float
    ) -> dict[int, float] | None:
        """The scores that ``left`` more may lift among the best ``k``; None if it may lift any."""
        if heapq.nlargest(k, scores.values())[-1] <= left:
            return None  # no need to look closer: nothing weighs more than 1
        bar = self._bar(scores, asked, k) - _ROUNDING
        return None if bar <= left else self._above(scores, asked, bar, left)

    def _nominated(self, scores: dict[int, float], asked: Asked, most: int) -> dict[int, float]:
        """The passages of about ``most`` memories, whatever order they came in."""
        return self._above(scores, asked, self._bar(scores, asked, most), 0.0)

    def _above(
        self, scores: dict[int, float], asked: Asked, bar: float, left: float
    ) -> dict[int, float]:
        voice, weights = self._voices.of, asked.voices
        return {
            number: score
            for number, score in scores.items()
            if score + left >= bar and (score + left) * weights[voice[number]] >= bar
        }


def _weight(terms: Iterable[tuple[str, float]]) -> float:
    return math.fsum(rarity for _, rarity in terms)
