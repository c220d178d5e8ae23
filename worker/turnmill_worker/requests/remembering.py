"""Answers questions about memories: keeps what an agent pushes, and finds what suits a query."""

from __future__ import annotations

import hashlib
from typing import Any

from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import Namespace
from turnmill_worker.ports.archive import Archive, Memories
from turnmill_worker.ports.records import Memory
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.quotas import Quotas

__all__ = ["Remembering"]

NO_ARCHIVE = "the workers have no archive (TURNMILL_ARCHIVE_URL=none): nothing is remembered there"


class Remembering:
    """Memories in an archive, which may be missing, under the namespace's quota."""

    def __init__(self, archive: Archive | None, memories: Memories | None, quotas: Quotas) -> None:
        self._archive = archive
        self._memories = memories
        self._quotas = quotas

    def remember(self, namespace: Namespace, text: str, at_ms: int) -> str:
        """Keep the text; returns its id, which depends on nothing else.

        Raises:
            QuotaExceeded: there are as many memories as the namespace may have.
            InvalidInput: there is no archive.
        """
        if self._archive is None:
            raise InvalidInput(NO_ARCHIVE)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        memory = Memory(id=f"pushed:{digest[:32]}", kind="pushed", text=text, at_ms=at_ms)
        self._quotas.read_again()
        self._archive.remember(namespace, memory, most=self._quotas.of(namespace).memories)
        return memory.id

    def search(self, ref: SessionRef, body: Any) -> Any:
        """What suits the query that the question holds.

        Raises:
            InvalidInput: there is no archive.
        """
        if self._memories is None:
            raise InvalidInput(NO_ARCHIVE)
        # Agents that cannot ask for one session do not name any.
        session = body.get("session")
        found = self._memories.search(ref.namespace, body["query"], body["k"], session)
        return found.model_dump(mode="json")
