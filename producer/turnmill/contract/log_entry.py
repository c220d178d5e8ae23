"""Turns of the log: as Redis holds them, and as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import CorruptContext
from turnmill.contract.formats import refuse_newer_body
from turnmill.contract.names import Seq
from turnmill.contract.rules import UNMARKED, Mark, mark_of
from turnmill.contract.sealing import check_plain


class TailTurn(NamedTuple):
    """One turn of the log as it is read: elisions applied.

    Attributes:
        seq: its position.
        messages: in push order.
        tokens: exact when ``exact``, else an upper bound.
        exact: a worker has counted it.
        pinned: it must be kept word for word.
        pushed: its messages as pushed, where they are read otherwise; None where they are not.
        mark: what its metadata say about rules.
        body: what ``pushed`` was decoded from; None where nobody knows.
    """

    seq: Seq
    messages: Sequence[JsonMessage]
    tokens: int
    exact: bool = False
    pinned: bool = False
    pushed: Sequence[JsonMessage] | None = None
    mark: Mark = UNMARKED
    body: bytes | None = None


ERASED_AT: Final = "erased_at_ms"
"""Among a turn's fields: since when it is a tombstone."""
_CHAIN = 13
_COUNTED_BY = 15


class LogEntry(NamedTuple):
    """One turn as the log holds it.

    Attributes:
        bound: tokens of its messages at most.
        counted_by: the encoding by which that is their exact number; ``""`` where it is fitted.
    """

    seq: Seq
    messages: bytes
    bound: int
    turn_id: bytes
    fields: bytes
    at_ms: bytes
    chain: str
    counted_by: str = ""

    @classmethod
    def of(cls, entry: tuple[bytes, Any]) -> LogEntry:
        """An entry as redis-py parsed it, or raw, in the order push.lua writes its fields.

        Raises:
            NewerFormat: a newer version of turnmill wrote it, and this one cannot read it.
        """
        entry_id, fields = entry
        if isinstance(fields, dict):
            fields = [part for pair in fields.items() for part in pair]
        # A client of before chains wrote none: its turn_id and time stand for it, as in scripts.
        chain = fields[_CHAIN] if len(fields) > _CHAIN else fields[5] + b" " + fields[9]
        refuse_newer_body(fields[7], "stored turn")
        return cls(
            Seq(int(entry_id[:-2])),
            fields[1],
            int(fields[3]),
            fields[5],
            fields[7],
            fields[9],
            chain.decode("utf-8", "replace"),
            fields[_COUNTED_BY].decode() if len(fields) > _COUNTED_BY else "",
        )

    @property
    def is_erased(self) -> bool:
        """Whether it stands for a turn that was erased; metadata may have such a field, too."""
        return b"erased_at_ms" in self.fields and ERASED_AT in decode_json(self.fields)

    @property
    def pinned(self) -> bool:
        """Whether the turn is pinned; an agent's metadata may have a field of that name, too."""
        return b'"pinned":true' in self.fields and bool(decode_json(self.fields).get("pinned"))

    @property
    def iteration(self) -> int | None:
        """The agent's own step number, when it gave one."""
        if b'"iteration":' not in self.fields:
            return None
        found: int | None = decode_json(self.fields).get("iteration")
        return found

    @property
    def under(self) -> str:
        """``PREFIX@SEQ``: what an agent had read when it pushed thoughts, and its newest turn.

        ``""`` where nobody knows.
        """
        if b'"under":' not in self.fields:
            return ""
        return str(decode_json(self.fields).get("under") or "")

    @property
    def mark(self) -> Mark:
        """What the turn's metadata say about rules."""
        return mark_of(self.fields)


def decode_turns(bodies: Sequence[bytes]) -> list[list[JsonMessage]]:
    """The messages of stored turns.

    Raises:
        CorruptContext: a turn is not what this version of turnmill writes.
    """
    try:
        turns: list[list[JsonMessage]] = decode_json(b"[%b]" % b",".join(bodies))
    except ValueError:
        check_plain(*bodies)
        # Not chained: the decoder's error holds the text.
        size = sum(map(len, bodies))
        raise CorruptContext(f"stored turns: {size} bytes, some of them not JSON") from None
    if not all(isinstance(turn, list) for turn in turns):
        raise CorruptContext("stored turns: one is not a list of messages")
    return turns
