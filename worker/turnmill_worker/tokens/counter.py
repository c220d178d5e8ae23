"""Which counter serves an encoding: bpe-openai, then tiktoken, then the heuristic."""

from __future__ import annotations

import functools
from typing import Protocol

from turnmill.contract.errors import UnknownEncoding
from turnmill.contract.policy import ENCODINGS
from turnmill_worker.tokens.bpe import BpeCounter
from turnmill_worker.tokens.heuristic import HeuristicCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter


class TokenCounter(Protocol):
    """Counts tokens of text, and says by what."""

    @property
    def basis(self) -> str:
        """What counts are made with: `<vocabulary>/<formula version>`, or `heuristic/<version>`."""

    def count(self, text: str) -> int:
        """Return the tokens of `text`: linear in its length, never raises, special tokens as text.

        Whether that is exact or near is what `basis` says.
        """


@functools.cache
def counter_for(encoding: str = "o200k_base") -> TokenCounter:
    """Return this process's counter for `encoding`, the fastest exact one that can be loaded.

    Falls back to the heuristic, whose basis says so, when no library has or can fetch the
    vocabulary; that takes at most `tiktoken.DOWNLOAD_TIMEOUT_S` and is decided once per process.
    Raises UnknownEncoding for a name not in `ENCODINGS`.
    """
    if encoding not in ENCODINGS:
        raise UnknownEncoding(f"encoding {encoding!r}: use one of {', '.join(ENCODINGS)}")
    if encoding != "heuristic":
        for library in (BpeCounter, TiktokenCounter):
            try:
                return library(encoding)
            # A library may be missing, lack the encoding, or fail in ways of its own (a download, a
            # corrupt cache): none of that may stop a session from being counted.
            except Exception:  # noqa: BLE001, S112
                continue
    return HeuristicCounter()
