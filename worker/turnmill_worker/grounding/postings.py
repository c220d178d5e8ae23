"""Where each term occurs: arrays, so that 100,000 memories fit into a worker."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["FULL", "Postings"]

K1: Final = 0.8
"""How fast repeating a term stops counting (Robertson's k1)."""

B: Final = 0.4
"""How much a long memory's terms count less (Robertson's b)."""

FULL: Final = 1 / (1 + K1 * (1 - B))
"""What a term is worth, said once in the shortest of memories."""

ASKING: Final = 0.7
"""What a memory that only asks is worth against one that tells."""

_MOST_REPEATS: Final = 10
_EXACT_LENGTH: Final = 64

Posting = tuple["array[int]", "array[int]"]
Shape = tuple[int, int, int, bool]


class Postings:
    """Terms, where they occur, and in which shape: how often, in how long a memory.

    A memory is known here by its number; numbers rise. Shapes are few, so each posting holds the
    number of one, and what a shape is worth is worked out once for them all.
    """

    def __init__(self) -> None:
        self._found: dict[str, Posting] = {}
        self._shapes: dict[Shape, int] = {}
        self._worth: list[float] | None = None
        self._spread: list[float] = []
        self._length = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, number: int, said: Iterable[str], about: Iterable[str], *, asks: bool) -> None:
        """Notes the terms said in a memory, and those about it (speaker, date), under a number.

        The number must be above all earlier ones.
        """
        body, every, length = _counted(said, about)
        rough = _rounded(length)
        for term, times in every.items():
            spoken = min(body[term], _MOST_REPEATS)
            shape = (min(times, _MOST_REPEATS), spoken, rough, asks)
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
        """How many memories have the term."""
        found = self._found.get(term)
        return len(found[0]) if found else 0

    def numbers(self, term: str) -> Sequence[int]:
        """The memories with the term, oldest number first."""
        return self._found[term][0]

    def worths(self, term: str) -> list[float]:
        """What the term is worth to each of ``numbers``."""
        worth, _ = self._tables()
        return [worth[shape] for shape in self._found[term][1]]

    def spreads(self, term: str) -> list[float]:
        """What the term is worth to the neighbours of each of ``numbers``; 0 if not said there."""
        _, spread = self._tables()
        return [spread[shape] for shape in self._found[term][1]]

    def at(self, term: str, number: int) -> tuple[float, float]:
        """The term's worth to one memory and to its neighbours; nothing where it is absent."""
        numbers, shapes = self._found[term]
        at = bisect_left(numbers, number)
        if at == len(numbers) or numbers[at] != number:
            return 0.0, 0.0
        worth, spread = self._tables()
        return worth[shapes[at]], spread[shapes[at]]

    def _changed(self, memories: int, length: int) -> None:
        self._size += memories
        self._length += length
        self._worth = None

    def _tables(self) -> tuple[list[float], list[float]]:
        """What each shape is worth, now that memories have this mean length (BM25)."""
        if self._worth is None:
            mean = self._length / self._size
            self._worth, self._spread = [], []
            for times, spoken, length, asks in self._shapes:
                damping = K1 * (1 - B + B * length / mean)
                tells = ASKING if asks else 1.0
                self._worth.append(tells * times / (times + damping))
                self._spread.append(spoken / (spoken + damping))
        return self._worth, self._spread


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
