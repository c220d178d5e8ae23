"""Where each term occurs: arrays, so that 100,000 passages fit into a worker."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["FULL", "UNIT", "Postings", "addend"]

K1: Final = 0.8
"""How fast repeating a term stops counting (Robertson's k1)."""

B: Final = 0.4
"""How much a long passage's terms count less (Robertson's b)."""

FULL: Final = 1 / (1 + K1 * (1 - B))
"""What a term is worth, said once in the shortest of passages."""

ASKING: Final = 0.7
"""What a passage that asks is worth against one that tells."""

PART: Final = 0.5
"""How much less is nearby what a long message says: it speaks of many things."""

CLOSE: Final = 0.65
"""What a term is worth to the turn right after the one that says it."""

FAR: Final = 0.4
"""What it is worth to the turn before, and to the second after."""

UNIT: Final = 1 << 40
"""Of what is lent, as whole numbers: their sum does not depend on its order."""

_MOST_REPEATS: Final = 10
_EXACT_LENGTH: Final = 64

Posting = tuple["array[int]", "array[int]"]
Shape = tuple[int, int, int, bool, bool]


class Postings:
    """Terms, where they occur, and in which shape: how often, in how long a passage.

    A passage is known here by its number; numbers rise. Shapes are few, so each posting holds the
    number of one, and what a shape is worth is worked out once for them all.
    """

    def __init__(self) -> None:
        self._found: dict[str, Posting] = {}
        self._shapes: dict[Shape, int] = {}
        self._worths: list[float] | None = None
        self._close: list[int] = []
        self._far: list[int] = []
        self._length = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        number: int,
        said: Iterable[str],
        about: Iterable[str],
        *,
        asks: bool,
        part: bool = False,
    ) -> None:
        """Notes the terms said in a passage, and those about it (speaker, date), under a number.

        The number must be above all earlier ones. ``part``: its message says more than this.
        """
        body, every, length = _counted(said, about)
        rough = _rounded(length)
        for term, times in every.items():
            spoken = min(body[term], _MOST_REPEATS)
            shape = (min(times, _MOST_REPEATS), spoken, rough, asks, part)
            numbers, shapes = self._found.setdefault(term, (array("I"), array("H")))
            numbers.append(number)
            shapes.append(self._shapes.setdefault(shape, len(self._shapes)))
        self._changed(1, length)

    def remove(self, number: int, said: Iterable[str], about: Iterable[str]) -> None:
        """Forgets a number, given the very terms it was added with."""
        _, every, length = _counted(said, about)
        for term in every:
            numbers, shapes = self._found[term]
            at = bisect_left(numbers, number)
            del numbers[at], shapes[at]
            if not numbers:
                del self._found[term]
        self._changed(-1, -length)

    def frequency(self, term: str) -> int:
        """How many passages have the term."""
        found = self._found.get(term)
        return len(found[0]) if found else 0

    def worths(self, term: str) -> Iterator[tuple[int, float]]:
        """The passages with the term, oldest number first, and what it is worth to each."""
        numbers, shapes = self._found[term]
        worths, _, _ = self._tables()
        return zip(numbers, map(worths.__getitem__, shapes), strict=True)

    def lent(self, term: str) -> Iterator[tuple[int, int, int]]:
        """The passages with the term, and what it lends to turns close by and far.

        0 where it is not said, but known.
        """
        numbers, shapes = self._found[term]
        _, close, far = self._tables()
        lends = map(close.__getitem__, shapes), map(far.__getitem__, shapes)
        return zip(numbers, *lends, strict=True)

    def worth_at(self, term: str, number: int) -> float:
        """The term's worth to one passage; 0 where it is absent."""
        numbers, shapes = self._found[term]
        at = bisect_left(numbers, number)
        if at == len(numbers) or numbers[at] != number:
            return 0.0
        return self._tables()[0][shapes[at]]

    def lent_by(self, term: str, passages: range) -> tuple[int, int]:
        """The most that one of these passages lends to turns close by and far."""
        numbers, shapes = self._found[term]
        _, close, far = self._tables()
        start = bisect_left(numbers, passages.start)
        own = shapes[start : bisect_left(numbers, passages.stop, start)]
        return max((close[at] for at in own), default=0), max((far[at] for at in own), default=0)

    def _changed(self, passages: int, length: int) -> None:
        self._size += passages
        self._length += length
        self._worths = None

    def _tables(self) -> tuple[list[float], list[int], list[int]]:
        """What each shape is worth and lends, now that passages have this mean length (BM25)."""
        if self._worths is None:
            mean = self._length / self._size
            self._worths, self._close, self._far = [], [], []
            for times, spoken, length, asks, part in self._shapes:
                damping = K1 * (1 - B + B * length / mean)
                tells = ASKING if asks else 1.0
                self._worths.append(tells * times / (times + damping))
                said = (PART if part else 1.0) * spoken / (spoken + damping)
                self._close.append(addend(CLOSE * said))
                self._far.append(addend(FAR * said))
        return self._worths, self._close, self._far


def addend(share: float) -> int:
    """A share as what adds up: together two leave what neither covers."""
    return round(-math.log1p(-share) * UNIT)


def _counted(said: Iterable[str], about: Iterable[str]) -> tuple[Counter[str], Counter[str], int]:
    body = Counter(said)
    every = Counter(body)
    every.update(about)
    return body, every, every.total()


def _rounded(length: int) -> int:
    """The length, to six per cent: so that shapes stay few whatever agents say."""
    if length < _EXACT_LENGTH:
        return length
    step = 1 << (length.bit_length() - 5)
    return length // step * step
