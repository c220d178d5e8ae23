"""Exact counts by bpe-openai: tiktoken's numbers, in linear time on any input, offline.

tiktoken merges a run of one character in time that grows faster than its length; bpe-openai does
not, and its wheel carries the vocabularies, so it is the first choice wherever it has the encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from turnmill_worker.tokens.basis import basis
from turnmill_worker.tokens.messages import TokenCounter
from turnmill_worker.tokens.surrogates import mended
from turnmill_worker.tokens.vocabulary import bindings

if TYPE_CHECKING:
    from collections.abc import Callable

# o200k_harmony is o200k_base with more special tokens, and here those are counted as plain text.
_SAME_TEXT_COUNTS = {"o200k_harmony": "o200k_base"}


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


class BpeCounter(TokenCounter):
    """Counts text with bpe-openai; special tokens in the text are text."""

    splits_lines = True
    """Both vocabularies split a text before they merge, and always there."""

    def __init__(self, encoding: str) -> None:
        """Load the vocabulary of `encoding`: about 0.1 s and 65 MB, once per process.

        Raises ImportError when bpe-openai is not installed, ValueError when it lacks `encoding`.
        """
        build = cast("Callable[[str], _Tokenizer]", bindings().tokenizer_for_encoding)
        self._tokenizer = build(_SAME_TEXT_COUNTS.get(encoding, encoding))
        self._basis = basis(encoding)

    @property
    def basis(self) -> str:
        """The vocabulary and formula version; the same whichever exact library counted."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the exact number of tokens in `text`; never raises, whatever the text."""
        try:
            return self._tokenizer.count(text)
        except UnicodeEncodeError:
            return self._tokenizer.count(mended(text))
