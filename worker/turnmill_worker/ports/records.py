"""What goes to the archive and comes back: plain values, JSON still encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from turnmill.contract.codec import decode_json
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.trajectory import TurnState

__all__ = [
    "ERASED_AT",
    "ArchivedCompaction",
    "ArchivedTurn",
    "Batch",
    "Blob",
    "LostBranch",
    "Memory",
    "Removed",
    "Tip",
]

ERASED_AT: Final = "erased_at_ms"
"""The field that an erased turn has beside its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTurn:
    """One turn as Redis held it.

    Attributes:
        messages: JSON array; images as ``blob:`` references.
        fields: JSON object of iteration, metadata and pinned, or ``b""``.
        at_ms: when it was admitted.
        tokens: exact, or None when no worker counted it.
        blobs: sha256 of each image it refers to.
        chain: the same exactly if it and all turns before are; ``""`` of older clients.
        by: the commit that took it from the log, or set it aside; ``""`` when that had no id.
    """

    seq: Seq
    messages: bytes
    turn_id: str
    fields: bytes
    at_ms: int
    tokens: int | None
    state: TurnState = "kept"
    blobs: tuple[str, ...] = ()
    chain: str = ""
    by: str = ""

    def is_same(self, other: ArchivedTurn) -> bool:
        """Whether both are one turn of one history, whatever became of it since."""
        if self.chain and other.chain:
            return self.chain == other.chain
        if self.erased_at_ms or other.erased_at_ms:
            return self.at_ms == other.at_ms
        mine, others = (
            (each.turn_id, each.at_ms, each.messages, each.fields) for each in (self, other)
        )
        return mine == others

    @property
    def erased_at_ms(self) -> int | None:
        """When the turn was erased; None if it was not."""
        if ERASED_AT.encode() not in self.fields:
            return None
        try:
            found = decode_json(self.fields)
        except (RecursionError, ValueError):
            return None
        at_ms = found.get(ERASED_AT) if isinstance(found, dict) else None
        return at_ms if isinstance(at_ms, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCompaction:
    """One commit.

    Attributes:
        record: JSON of a ``Compaction``.
        context: JSON of the ``StoredContext`` it wrote.
        detail: JSON of the managed view it made (template, input, raw output), or ``b""``.
        commit_id: its own, random; ``""`` of older workers.
    """

    version: Version
    at_ms: int
    record: bytes
    context: bytes
    detail: bytes = b""
    commit_id: str = ""

    def is_same(self, other: ArchivedCompaction) -> bool:
        """Whether both are one commit."""
        if self.commit_id and other.commit_id:
            return self.commit_id == other.commit_id
        # One whose context was emptied by an erasure still has its time.
        same = self.context == other.context or self.at_ms == other.at_ms
        return same and self.record == other.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One image, by its content."""

    sha256: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one drain moves; storing it twice changes nothing."""

    turns: tuple[ArchivedTurn, ...] = ()
    compactions: tuple[ArchivedCompaction, ...] = ()
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """The newest turn and commit of an incarnation in one place; 0 and ``""`` for none."""

    epoch: str
    seq: int
    version: int
    commit_id: str = ""

    def is_ahead_of(self, other: Tip) -> bool:
        """Whether the other is of the same incarnation and lacks turns or commits."""
        behind = other.seq < self.seq or other.version < self.version
        return other.epoch == self.epoch and behind


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBranch:
    """What the archive kept of a state that Redis lost when it returned to an earlier one.

    Attributes:
        branch: its number, from 1 on.
        epoch: under which the archive has it.
        first_seq, last_seq: of its turns; 0 when there are none.
        compactions: how many commits.
    """

    branch: int
    epoch: str
    turns: int
    first_seq: int
    last_seq: int
    compactions: int

    @property
    def numbers(self) -> dict[str, int]:
        """All but the epoch, as fields of a log line."""
        names = ("branch", "turns", "first_seq", "last_seq", "compactions")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Something an agent of the namespace said, learned or was told to remember.

    Attributes:
        id: ``<session>:<epoch>:turn:<seq>``, ``…:summary`` (one per incarnation,
            replaced in place), ``…:event:<first_seq>``, or the id of a pushed one.
        kind: where it comes from.
        text: what is retrieved; a summary's begins with ``[context-summary]``.
        speaker: the speaker's role or name, ``tool`` for what a tool returned, or ``""``.
        session: whose it is; None for one pushed to the namespace.
        seq: the turn it was said in; None for all others.
        position: its number among what was said in one incarnation of a session, without gaps:
            what is said nearby helps to find a memory. What a tool returned has the number of
            what was said before. 0 for all others.
        at_ms: when it was made.
    """

    id: str
    kind: Literal["turn", "summary", "pushed"]
    text: str
    speaker: str = ""
    session: SessionId | None = None
    seq: Seq | None = None
    position: int = 0
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """How many rows of each kind left the archive."""

    turns: int = 0
    compactions: int = 0
    views: int = 0
    blobs: int = 0
    memories: int = 0
