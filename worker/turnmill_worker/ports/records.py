"""What goes to the archive and comes back: plain values, JSON still encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.trajectory import TurnState

__all__ = ["ArchivedCompaction", "ArchivedTurn", "Batch", "Blob", "Memory", "Removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTurn:
    """One turn as Redis held it.

    Attributes:
        messages: JSON array; images as ``blob:`` references.
        fields: JSON object of iteration, metadata and pinned, or ``b""``.
        at_ms: when it was admitted.
        tokens: exact, or None when no worker counted it.
        blobs: sha256 of each image it refers to.
    """

    seq: Seq
    messages: bytes
    turn_id: str
    fields: bytes
    at_ms: int
    tokens: int | None
    state: TurnState = "kept"
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCompaction:
    """One commit.

    Attributes:
        record: JSON of a ``Compaction``.
        context: JSON of the ``StoredContext`` it wrote.
        detail: JSON of the managed view it made (template, input, raw output), or ``b""``.
    """

    version: Version
    at_ms: int
    record: bytes
    context: bytes
    detail: bytes = b""


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
class Memory:
    """Something an agent of the namespace said, learned or was told to remember.

    Attributes:
        id: ``<session>:<epoch>:turn:<seq>``, ``…:summary`` (one per incarnation,
            replaced in place), ``…:event:<first_seq>``, or the id of a pushed one.
        kind: where it comes from.
        text: what is retrieved; a summary's begins with ``[context-summary]``.
        speaker: the speaker's role or name, or ``""``.
        session: whose it is; None for one pushed to the namespace.
        seq: the turn it was said in; None for all others.
        position: its number among what was said in one incarnation of a session, without gaps:
            what is said nearby helps to find a memory. 0 for all others.
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
