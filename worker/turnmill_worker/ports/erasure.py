"""What an erasure hands to the store and to the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnmill.contract.erasure import How
from turnmill.contract.names import Seq, SessionId
from turnmill_worker.ports.past import Restored
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn

__all__ = ["Cleansed", "Emptied", "Erasure", "Gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleansed:
    """A session in Redis as an erasure leaves it.

    Attributes:
        state: the context and the log as they will be; ``state.seq`` is the newest turn known.
        turns: by seq, what stands in the place of each erased turn.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        remade: the context is an earlier one, and later turns are in the log again.
    """

    state: Restored
    turns: Mapping[int, ArchivedTurn]
    contexts: tuple[ArchivedCompaction, ...]
    checkpoints: tuple[str, ...]
    remade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """What an erasure changes in the archive, of one incarnation of a session.

    Attributes:
        turns: what stands in the place of erased turns that left the log.
        all_turns: their seqs, with those still in the log.
        contexts: the commits of each context made of them, with what stands in its place.
        memories: ids of pushed memories that go.
    """

    turns: tuple[ArchivedTurn, ...]
    all_turns: tuple[int, ...]
    contexts: tuple[ArchivedCompaction, ...]
    memories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """How much left the archive."""

    memories: int = 0
    images: int = 0

    def __add__(self, other: Gone) -> Gone:
        return Gone(memories=self.memories + other.memories, images=self.images + other.images)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The record of an erasure: that it was, not what it was of; ``Erased`` explains the fields."""

    id: str
    session: SessionId
    at_ms: int
    by: str
    how: How
    turns: tuple[Seq, ...]
    contexts: int
    checkpoints: int
    memories: int
    images: int
