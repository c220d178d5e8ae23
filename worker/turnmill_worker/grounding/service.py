"""The namespaces' memories as one worker process knows them: indexes that follow the archive."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

from turnmill.contract.names import Namespace
from turnmill.contract.results import GroundedContext, GroundedMemory
from turnmill_worker.grounding.hybrid import HybridSearch
from turnmill_worker.grounding.index import Found, MemoryIndex
from turnmill_worker.records import Memory

__all__ = ["ArchivedMemories", "GroundingService"]

_AT_ONCE: Final = 1_000
_MOST_NAMESPACES: Final = 64
"""Indexes kept; the one asked longest ago is read anew when it is asked again."""


class ArchivedMemories(Protocol):
    """Where memories are read from."""

    def memories(self, namespace: Namespace, *, after: int, most: int) -> list[tuple[int, Memory]]:
        """Memories in the order of their cursors."""

    def memory_generation(self, namespace: Namespace) -> int:
        """Raised whenever memories were deleted."""


class _Following:
    """One namespace's index, and how far into the archive it has read."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.cursor = 0
        self.index = MemoryIndex()


class GroundingService:
    """The ``Memories`` port: searches the index of a namespace, brought up to date first."""

    def __init__(self, archive: ArchivedMemories, hybrid: HybridSearch | None = None) -> None:
        self._archive = archive
        self._hybrid = hybrid
        self._followed: OrderedDict[Namespace, _Following] = OrderedDict()
        self._lock = threading.Lock()

    def search(self, namespace: Namespace, query: str, k: int) -> GroundedContext:
        """The best ``k`` memories for a query.

        Raises:
            ArchiveUnavailable: the archive cannot be read now.
        """
        with self._lock:
            index = self._up_to_date(namespace)
            if self._hybrid is None:
                return GroundedContext(memories=tuple(map(_grounded, index.search(query, k))))
            found = self._hybrid.search(index, query, k)
        memories = tuple(map(_grounded, found.found))
        return GroundedContext(memories=memories, degraded=found.without_embeddings)

    def _up_to_date(self, namespace: Namespace) -> MemoryIndex:
        generation = self._archive.memory_generation(namespace)
        following = self._followed.get(namespace)
        if following is None or following.generation != generation:
            following = self._followed[namespace] = _Following(generation)
        self._followed.move_to_end(namespace)
        while len(self._followed) > _MOST_NAMESPACES:
            self._followed.popitem(last=False)
        while new := self._archive.memories(namespace, after=following.cursor, most=_AT_ONCE):
            following.index.add(memory for _, memory in new)
            following.cursor = new[-1][0]
        return following.index


def _grounded(found: Found) -> GroundedMemory:
    memory = found.memory
    return GroundedMemory(
        id=memory.id,
        text=memory.text,
        kind=memory.kind,
        session=memory.session,
        speaker=memory.speaker,
        at_ms=memory.at_ms,
        relevance=found.relevance,
    )
