"""Vectors of texts, as retrieval asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from turnmill.contract.errors import Transient

__all__ = ["Embedder", "EmbeddingsUnavailable", "Vector"]

Vector = Sequence[float]


class EmbeddingsUnavailable(Transient):
    """The endpoint cannot be reached, refused, or answered with something other than vectors."""


class Embedder(Protocol):
    """Turns texts into vectors whose cosine says how alike the texts are."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order, all of one length.

        Raises:
            EmbeddingsUnavailable: no vectors now; retrieval does without.
        """
