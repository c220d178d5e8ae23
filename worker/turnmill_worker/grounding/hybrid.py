"""Orders the best memories anew with the help of embeddings, when there are any."""

from __future__ import annotations

import math
import operator
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from turnmill.contract.errors import Transient
from turnmill_worker.grounding.index import Found

__all__ = ["Embedder", "EmbeddingsUnavailable", "HybridSearch", "Vector"]

CANDIDATES: Final = 50
"""How many of the best are embedded: a model alone finds less than words do."""

REST_S: Final = 30.0
"""How long an endpoint that failed is left alone: one that hangs would slow every question."""

_ROUNDING: Final = 1e-12
_MOST_VECTORS: Final = 4_096
"""Vectors remembered: 25 MB of 1,536 dimensions."""

Vector = Sequence[float]


class EmbeddingsUnavailable(Transient):
    """The endpoint cannot be reached, refused, or answered with something other than vectors."""


class Embedder(Protocol):
    """Turns texts into vectors whose cosine says how alike the texts are."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order, all of one length; or ``EmbeddingsUnavailable``."""


class HybridSearch:
    """Orders what an index found by the sum of two z-scores: relevance and cosine.

    Vectors of memories are remembered by their text. An endpoint that fails changes the order,
    never the outcome, and is asked again after a rest. Thread-safe, and no thread waits for
    another's request.
    """

    def __init__(self, embedder: Embedder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._rests_until = -math.inf
        self._reason = ""
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def order(self, query: str, found: Sequence[Found], k: int) -> tuple[list[Found], str]:
        """The best ``k`` of what an index found, and why embeddings were not used, or ``""``.

        A relevance is the mean of the index's and the cosine.
        """
        if not found:
            return [], ""
        try:
            cosines = self._cosines(query, [each.text for each in found])
        except EmbeddingsUnavailable as error:
            return list(found[:k]), str(error)
        lexical = _standard([each.relevance for each in found])
        semantic = _standard(cosines)
        order = sorted(range(len(found)), key=lambda at: (-lexical[at] - semantic[at], at))
        return [_both(found[at], cosines[at]) for at in order[:k]], ""

    def _cosines(self, query: str, texts: Sequence[str]) -> list[float]:
        with self._lock:
            used = {text: self._known[text] for text in texts if text in self._known}
        new = list(dict.fromkeys(text for text in texts if text not in used))
        asked, *vectors = map(_unit, self._embed([query, *new]))
        used.update(zip(new, vectors, strict=True))
        same = all(len(vector) == len(asked) for vector in used.values())
        with self._lock:
            if not same:
                self._known.clear()
                raise EmbeddingsUnavailable("the endpoint's vectors have changed their length")
            for text, vector in used.items():
                self._known[text] = vector
                self._known.move_to_end(text)
            while len(self._known) > _MOST_VECTORS:
                self._known.popitem(last=False)
        return [sum(map(operator.mul, asked, used[text])) for text in texts]

    def _embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._clock() < self._rests_until:
            raise EmbeddingsUnavailable(self._reason)
        try:
            return self._embedder.embed(texts)
        except EmbeddingsUnavailable as error:
            self._reason, self._rests_until = str(error), self._clock() + REST_S
            raise


def _unit(vector: Vector) -> Vector:
    """The vector at length 1, so that a product of two is their cosine."""
    length = math.hypot(*vector) or 1.0
    return array("f", (value / length for value in vector))


def _standard(values: Sequence[float]) -> list[float]:
    """Values as standard deviations from their mean; zeros when they do not differ."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / deviation if deviation > _ROUNDING else 0.0 for value in values]


def _both(found: Found, cosine: float) -> Found:
    return replace(found, relevance=min(1.0, (found.relevance + max(0.0, cosine)) / 2))
