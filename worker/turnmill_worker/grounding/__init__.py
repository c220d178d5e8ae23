"""Grounding: finds the memories of a namespace that help with a question."""

from turnmill_worker.grounding.embeddings import (
    Embedder,
    EmbeddingsUnavailable,
    OpenAiEmbedder,
)
from turnmill_worker.grounding.hybrid import HybridSearch, Retrieval
from turnmill_worker.grounding.index import Found, MemoryIndex
from turnmill_worker.grounding.message import MEMORIES_NAME, memories_message

__all__ = [
    "MEMORIES_NAME",
    "Embedder",
    "EmbeddingsUnavailable",
    "Found",
    "HybridSearch",
    "MemoryIndex",
    "OpenAiEmbedder",
    "Retrieval",
    "memories_message",
]
