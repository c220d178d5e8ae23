"""What an agent that asks for memories is given, found as a worker finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.archive.memories import of_turns
from turnmill_worker.ports.values import ArchivedTurn, Memory, SessionRef
from turnmill_worker.requests.grounding import MemoryIndex

__all__ = ["Recall", "recall_of"]

Recall = Callable[[str, int], list[Memory]]
"""The best memories for a question, at most so many."""


def recall_of(messages: Sequence[JsonMessage]) -> Recall:
    """Searches the memories of these turns, the first of which has the seq 1."""
    turns = (
        ArchivedTurn(
            seq=Seq(seq),
            messages=encode_json([message]),
            turn_id=str(seq),
            fields=b"",
            at_ms=0,
            tokens=None,
        )
        for seq, message in enumerate(messages, 1)
    )
    ref = SessionRef(Namespace("evaluate"), SessionId("evaluated"))
    index = MemoryIndex(made.memory for made in of_turns(ref, "0", turns, first=1))
    return lambda question, most: [found.memory for found in index.search(question, most)]
