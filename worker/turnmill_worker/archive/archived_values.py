"""What is read back from the archive besides the records that went in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from turnmill.contract.names import SessionId, Version

__all__ = ["ArchivedSession", "ManagedView"]


class ArchivedSession(NamedTuple):
    """A session with something in the archive.

    Attributes:
        turns: over all its incarnations, set-aside ones included.
        last_at_ms: of its newest archived turn or compaction.
    """

    session: SessionId
    turns: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedView:
    """How a template made a managed context.

    Attributes:
        epoch: the incarnation of the session.
        version: the context it became.
        template, source, sha256: its name, the file it was read from, and that file's hash.
        model: the alias it was asked by.
        input: what the model was given.
        raw_output: its answer, word for word.
        parsed_output: JSON of what was read from the answer, ``b"null"`` when it was not JSON.
        sections: names of the parts the input was made of, in order.
        budget: JSON object of token numbers.
    """

    epoch: str
    version: Version
    at_ms: int
    template: str
    source: str
    sha256: str
    model: str
    input: str
    raw_output: str
    parsed_output: bytes
    sections: tuple[str, ...]
    budget: bytes
