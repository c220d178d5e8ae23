"""Which turns an erasure is about; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from turnmill.contract.codec import decode_json
from turnmill.contract.erasure import How
from turnmill_worker.ports.records import ArchivedTurn

__all__ = ["RUN", "Sought", "runs", "said"]

RUN: Final = 5
"""As many words in a row as say whose they are."""

_STRUCTURE: Final = frozenset({"role", "type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What is to be erased.

    Attributes:
        turns: their seqs, when they were named.
        words: what the turns must have in them, when it was not.
        repeats: erase turns that repeat ``RUN`` words in a row of those, too.
    """

    how: How
    turns: frozenset[int]
    words: re.Pattern[str] | None
    repeats: bool
    by: str
    dry_run: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """What ``erasing`` asked for."""
        how: How = "turn"
        words = None
        if body["matching"] is not None:
            how, words = "matching", re.compile(re.escape(_plain(body["matching"])))
        elif body["subject"] is not None:
            name = re.escape(_plain(body["subject"]))
            how, words = "subject", re.compile(rf"(?<!\w){name}(?!\w)")
        return cls(
            how=how,
            turns=frozenset(body["turns"]),
            words=words,
            repeats=body["repeats"],
            by=body["by"],
            dry_run=body["dry_run"],
        )

    def names(self, text: str) -> bool:
        """Whether the text has the words that are looked for."""
        return self.words is not None and bool(self.words.search(_plain(text)))

    def finds(self, turn: ArchivedTurn) -> bool:
        """Whether the turn was named, or has these words in it."""
        return turn.seq in self.turns or self.names(said(turn))


def said(turn: ArchivedTurn) -> str:
    """All text of a turn: what was said, names, ids, arguments, metadata."""
    texts = [*_texts(_decoded(turn.messages)), *_texts(_decoded(turn.fields), keys=True)]
    return " ".join([turn.turn_id, *texts])


def runs(text: str) -> set[tuple[str, ...]]:
    """Every ``RUN`` words in a row."""
    words = re.findall(r"\w+", _plain(text))
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def _plain(text: str) -> str:
    """Without what differs between two ways to write the same words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _texts(value: object, *, keys: bool = False) -> Iterator[str]:
    """Every text in a JSON value, in order; also in JSON that a text holds, as arguments do."""
    waiting = [(value, keys)]
    while waiting:
        one, keys = waiting.pop()
        if isinstance(one, str):
            yield one
            if one.lstrip()[:1] in ("{", "["):  # where characters may be escaped
                waiting.append((_decoded(one.encode("utf-8", "surrogatepass")), True))
        elif isinstance(one, Mapping):
            if keys:
                yield from one
            inner = [item for name, item in one.items() if keys or name not in _STRUCTURE]
            waiting += [(item, keys) for item in reversed(inner)]
        elif isinstance(one, list):
            waiting += [(item, keys) for item in reversed(one)]
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)


def _decoded(body: bytes) -> Any:
    try:
        return decode_json(body) if body else None
    except (RecursionError, ValueError):
        return None
