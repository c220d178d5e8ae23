"""Orders BM25's best memories anew with the help of embeddings, when there are any."""

from __future__ import annotations

import math
import operator
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnmill_worker.grounding.embeddings import Embedder, EmbeddingsUnavailable, Vector
from turnmill_worker.grounding.index import Found, MemoryIndex

__all__ = ["HybridSearch", "Retrieval"]

CANDIDATES: Final = 50
"""How many of BM25's best are embedded: a model alone finds less than BM25 (docs/grounding.md)."""

REST_S: Final = 30.0
"""How long an endpoint that failed is left alone: one that hangs would slow every question."""

_ROUNDING: Final = 1e-12
_MOST_VECTORS: Final = 4_096
"""Vectors remembered: 25 MB of 1,536 dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What was found.

    Attributes:
        found: best first.
        without_embeddings: why they were not used though asked for; ``""`` when all went well.
    """

    found: tuple[Found, ...]
    without_embeddings: str = ""


class HybridSearch:
    """Searches an index, then orders the best by the sum of two z-scores: BM25 and cosine.

    Vectors of memories are remembered by their text, so a question costs one request for itself
    and candidates never seen before. An endpoint that fails changes the order, never the outcome,
    and is asked again after a rest. Thread-safe, and no thread waits for another's request.
    """

    def __init__(self, embedder: Embedder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._rests_until = -math.inf
        self._reason = ""
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def search(self, index: MemoryIndex, query: str, k: int) -> Retrieval:
        """The at most ``k`` most relevant memories; a relevance is the mean of both views."""
        if k <= 0:
            return Retrieval(found=())
        return self.order(query, index.search(query, max(k, CANDIDATES)), k)

    def order(self, query: str, candidates: Sequence[Found], k: int) -> Retrieval:
        """The best ``k`` of what an index found; the index may change meanwhile."""
        if not candidates:
            return Retrieval(found=())
        try:
            cosines = self._cosines(query, [found.text for found in candidates])
        except EmbeddingsUnavailable as error:
            return Retrieval(found=tuple(candidates[:k]), without_embeddings=str(error))
        lexical = _standard([found.relevance for found in candidates])
        semantic = _standard(cosines)
        order = sorted(range(len(candidates)), key=lambda at: (-lexical[at] - semantic[at], at))
        return Retrieval(found=tuple(_both(candidates[at], cosines[at]) for at in order[:k]))

    def _cosines(self, query: str, texts: Sequence[str]) -> list[float]:
        with self._lock:
            used = {text: self._known[text] for text in texts if text in self._known}
        new = list(dict.fromkeys(text for text in texts if text not in used))
        asked, *vectors = map(_unit, self._embed([query, *new]))
        used.update(zip(new, vectors, strict=True))
        if any(len(vector) != len(asked) for vector in used.values()):
            with self._lock:
                self._known.clear()
            raise EmbeddingsUnavailable("the endpoint's vectors have changed their length")
        self._remember(used)
        return [sum(map(operator.mul, asked, used[text])) for text in texts]

    def _embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._clock() < self._rests_until:
            raise EmbeddingsUnavailable(self._reason)
        try:
            return self._embedder.embed(texts)
        except EmbeddingsUnavailable as error:
            self._reason, self._rests_until = str(error), self._clock() + REST_S
            raise

    def _remember(self, used: Mapping[str, Vector]) -> None:
        with self._lock:
            for text, vector in used.items():
                self._known[text] = vector
                self._known.move_to_end(text)
            while len(self._known) > _MOST_VECTORS:
                self._known.popitem(last=False)


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
    relevance = min(1.0, (found.relevance + max(0.0, cosine)) / 2)
    return replace(found, relevance=relevance)
