"""What memories are worth for a question, read from as few postings as the answer allows."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from turnmill_worker.grounding.adjacent_turns import Neighbours
from turnmill_worker.grounding.postings import Postings
from turnmill_worker.grounding.terms import query_terms

__all__ = ["Asked", "Scoring"]

ONE_AFTER: Final = 0.7
"""What a term is worth to the turn right after the one that says it."""
ONE_BEFORE: Final = 0.4
TWO_AFTER: Final = 0.4

_COMMON: Final = 32
_COMMON_SHARE: Final = 0.1
"""A term in more memories than both says nothing about those nearby."""

_LONG_LIST: Final = 200
"""From this many postings on, it pays to check whether a common term can still matter."""

_MOST_READ: Final = 6_000
"""Postings read for one question before common terms stop nominating memories."""

_NOMINATED: Final = 256

_LOOKUP: Final = 4
"""Postings read in the time it takes to look up those of one memory."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's terms that some memory has, rarest first, and what all of them weigh."""

    terms: tuple[tuple[str, float], ...]
    weight: float


class Scoring:
    """BM25 over postings, with what is said nearby."""

    def __init__(self, postings: Postings, neighbours: Neighbours) -> None:
        self._postings = postings
        self._neighbours = neighbours

    def asked(self, query: str) -> Asked:
        """Each term's rarity: Lucene's idf, which is never negative."""
        size = len(self._postings)
        weighed: list[tuple[int, str, float]] = []
        for term in query_terms(query):
            found = self._postings.frequency(term)
            weighed.append((found, term, math.log(1 + (size - found + 0.5) / (found + 0.5))))
        weighed.sort()
        return Asked(
            terms=tuple((term, rarity) for found, term, rarity in weighed if found),
            weight=math.fsum(rarity for _, _, rarity in weighed),
        )

    def scores(self, asked: Asked, k: int) -> dict[int, float]:
        """Scores of the memories that can be among the best ``k``; exact for those that are.

        Rare terms come first. Once the rest together weigh less than the kth best score, memories
        without a rare term are out of reach, and the rest is looked up for the others only. Where
        that takes too much reading, the rare terms nominate the memories that are scored.
        """
        scores: dict[int, float] = {}
        read = 0
        for at, (term, rarity) in enumerate(asked.terms):
            frequency = self._postings.frequency(term)
            if len(scores) >= k and frequency > _LONG_LIST:
                left = math.fsum(rarity for _, rarity in asked.terms[at:])
                near = _within_reach(scores, k, left)
                if near is None and read + frequency > _MOST_READ:
                    near = _best(scores, max(k, _NOMINATED))
                if near is not None and len(near) * _LOOKUP <= frequency:
                    return self._completed(near, k, asked.terms[at:])
            read += frequency
            worths = self._worths(term)
            if not scores:
                scores = {number: rarity * worth for number, worth in worths}
                continue
            get = scores.get
            for number, worth in worths:
                scores[number] = get(number, 0.0) + rarity * worth
        return scores

    def _completed(
        self, scores: dict[int, float], k: int, rest: tuple[tuple[str, float], ...]
    ) -> dict[int, float]:
        """The scores with the remaining terms, looked up memory by memory."""
        left = math.fsum(rarity for _, rarity in rest)
        for term, rarity in rest:
            for number in scores:
                scores[number] += rarity * self._worth_at(term, number)
            left -= rarity
            scores = _within_reach(scores, k, left) or scores
        return scores

    def _is_common(self, term: str) -> bool:
        """Whether so many memories have the term that one nearby says nothing."""
        return self._postings.frequency(term) > max(_COMMON, _COMMON_SHARE * len(self._postings))

    def _worths(self, term: str) -> Iterable[tuple[int, float]]:
        """A term's worth in its best place, for every memory that has it in itself or nearby."""
        numbers = self._postings.numbers(term)
        own = zip(numbers, self._postings.worths(term), strict=True)
        if self._is_common(term):
            return own
        best = dict(own)
        get = best.get
        before, after = self._neighbours.before, self._neighbours.after
        for number, spread in zip(numbers, self._postings.spreads(term), strict=True):
            if not spread:
                continue
            near = before[number]
            if near >= 0 and (worth := spread * ONE_BEFORE) > get(near, 0.0):
                best[near] = worth
            near = after[number]
            if near >= 0:
                if (worth := spread * ONE_AFTER) > get(near, 0.0):
                    best[near] = worth
                near = after[near]
                if near >= 0 and (worth := spread * TWO_AFTER) > get(near, 0.0):
                    best[near] = worth
        return best.items()

    def _worth_at(self, term: str, number: int) -> float:
        """As ``_worths``, for one memory."""
        at = self._postings.at
        worth = at(term, number)[0]
        if self._is_common(term):
            return worth
        if (near := self._neighbours.after[number]) >= 0:
            worth = max(worth, at(term, near)[1] * ONE_BEFORE)
        if (near := self._neighbours.before[number]) >= 0:
            worth = max(worth, at(term, near)[1] * ONE_AFTER)
            if (near := self._neighbours.before[near]) >= 0:
                worth = max(worth, at(term, near)[1] * TWO_AFTER)
        return worth


def _within_reach(scores: dict[int, float], k: int, left: float) -> dict[int, float] | None:
    """The scores that ``left`` more may lift among the best ``k``; None if it may lift any."""
    bar = heapq.nlargest(k, scores.values())[-1] - left - _ROUNDING
    if bar <= 0:
        return None
    return {number: score for number, score in scores.items() if score >= bar}


def _best(scores: dict[int, float], most: int) -> dict[int, float]:
    """The ``most`` best scores and their equals, whatever order they came in."""
    bar = heapq.nlargest(most, scores.values())[-1]
    return {number: score for number, score in scores.items() if score >= bar}
