"""Grounding: finds the memories of a namespace that help with a question."""

from turnmill_worker.grounding.embeddings import (
    Embedder,
    EmbeddingsUnavailable,
)
from turnmill_worker.grounding.hybrid import HybridSearch, Retrieval
from turnmill_worker.grounding.index import Found, MemoryIndex

__all__ = [
    "Embedder",
    "EmbeddingsUnavailable",
    "Found",
    "HybridSearch",
    "MemoryIndex",
    "Retrieval",
]
