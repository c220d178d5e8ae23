"""The namespaces' memories as one worker process knows them: indexes that follow the archive."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.results import GroundedContext, GroundedMemory
from turnmill_worker.grounding.hybrid import CANDIDATES, HybridSearch
from turnmill_worker.grounding.index import Found, MemoryIndex
from turnmill_worker.ports.records import Memory

__all__ = ["ArchivedMemories", "GroundingService"]

_AT_ONCE: Final = 1_000
_MOST_MEMORIES: Final = 200_000
"""Memories kept of all namespaces together: some 250 MB with their indexes."""


class ArchivedMemories(Protocol):
    """Where memories are read from."""

    def memories(self, namespace: Namespace, *, after: int, most: int) -> list[tuple[int, Memory]]:
        """Memories in the order of their cursors."""

    def memory_generation(self, namespace: Namespace) -> int:
        """Raised whenever memories were deleted."""


class _Following:
    """One namespace's index, and how far into the archive it has read. Thread-safe."""

    def __init__(self, archive: ArchivedMemories, namespace: Namespace) -> None:
        self._archive = archive
        self._namespace = namespace
        self._lock = threading.Lock()
        self._generation = 0
        self._cursor = 0
        self._index = MemoryIndex()

    def __len__(self) -> int:
        return len(self._index)

    def search(self, query: str, k: int, session: SessionId | None) -> list[Found]:
        """The best ``k`` of what the archive has by now."""
        with self._lock:
            self._catch_up()
            return self._index.search(query, k, session=session)

    def _catch_up(self) -> None:
        generation = self._archive.memory_generation(self._namespace)
        if generation != self._generation:
            # Deleted memories leave no trace to follow.
            self._index = MemoryIndex()
            self._cursor, self._generation = 0, generation
        while new := self._archive.memories(self._namespace, after=self._cursor, most=_AT_ONCE):
            self._index.add(memory for _, memory in new)
            self._cursor = new[-1][0]


class GroundingService:
    """The ``Memories`` port: searches the index of a namespace, brought up to date first.

    Thread-safe. Questions about one namespace wait for each other while its index is read, never
    for another namespace's, nor for an endpoint.
    """

    def __init__(
        self,
        archive: ArchivedMemories,
        hybrid: HybridSearch | None = None,
        *,
        most_memories: int = _MOST_MEMORIES,
    ) -> None:
        """A service that follows an archive, and orders the best by embeddings if there are any.

        ``most_memories`` are kept of all namespaces together. Above that, namespaces asked longest
        ago are dropped, and read anew when asked again; the one asked last is always kept.
        """
        self._archive = archive
        self._hybrid = hybrid
        self._most_memories = most_memories
        self._followed: OrderedDict[Namespace, _Following] = OrderedDict()
        self._lock = threading.Lock()

    def search(
        self, namespace: Namespace, query: str, k: int, session: SessionId | None = None
    ) -> GroundedContext:
        """The best ``k`` memories for a query, of all sessions or of one.

        Raises:
            ArchiveUnavailable: the archive cannot be read now.
        """
        following = self._of(namespace)
        most = k if self._hybrid is None else max(k, CANDIDATES)
        found = following.search(query, most, session)
        self._make_room()
        if self._hybrid is None:
            return GroundedContext(memories=tuple(map(_grounded, found)))
        best, degraded = self._hybrid.order(query, found, k)
        return GroundedContext(memories=tuple(map(_grounded, best)), degraded=degraded)

    def _of(self, namespace: Namespace) -> _Following:
        with self._lock:
            following = self._followed.get(namespace)
            if following is None:
                following = self._followed[namespace] = _Following(self._archive, namespace)
            self._followed.move_to_end(namespace)
            return following

    def _make_room(self) -> None:
        with self._lock:
            # One more for each: namespaces without memories take room, too.
            kept = sum(1 + len(following) for following in self._followed.values())
            while kept > self._most_memories and len(self._followed) > 1:
                _, oldest = self._followed.popitem(last=False)
                kept -= 1 + len(oldest)


def _grounded(found: Found) -> GroundedMemory:
    memory = found.memory
    return GroundedMemory(
        id=memory.id,
        text=found.text,
        kind=memory.kind,
        session=memory.session,
        seq=memory.seq,
        speaker=memory.speaker,
        at_ms=memory.at_ms,
        relevance=found.relevance,
    )
