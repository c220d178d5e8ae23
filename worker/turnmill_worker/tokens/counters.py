"""Which counter serves an encoding: bpe-openai, then tiktoken, then an estimate by characters."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from turnmill.contract.errors import InvalidInput, UnknownEncoding
from turnmill.contract.estimate import ENCODINGS, estimate_tokens, file_of
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill_worker.tokens.bpe_openai import BpeCounter
from turnmill_worker.tokens.messages import TokenCounter, basis
from turnmill_worker.tokens.tiktoken import TiktokenCounter
from turnmill_worker.tokens.tokenizer_files import FileCounter

# Tokens per character that is not a letter or a space, beyond the 1/3.5 every character counts:
# punctuation and digits make characters/3.5 some 40 % short on JSON (field notes, Tokens).
_DENSE_ASCII = 0.25
# Tokens per character, by its length in UTF-8: accented and Cyrillic or Arabic letters; CJK, Thai
# and Indic scripts; emoji and rare ideographs. About what random text of them costs in o200k_base.
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES = 0.6, 1.1, 2.5

_LETTERS_AND_SPACE = b" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + bytes(
    range(0x80, 0x100)
)
_BELOW_TWO = bytes(range(0xC0))
_BELOW_THREE = bytes(range(0xE0))
_BELOW_FOUR = bytes(range(0xF0))


class HeuristicCounter(TokenCounter):
    """Estimates text by its characters: the number is near, not exact, and its basis says so."""

    @property
    def basis(self) -> str:
        """Say that this is an estimate, and by which version of the formula."""
        return basis("heuristic")

    def count(self, text: str) -> int:
        """Return ceil(characters/3.5), raised for digits, punctuation and non-Latin scripts.

        Never below `estimate_tokens(text)`; linear; never raises.
        """
        if text.isascii():
            dense = len(text.encode().translate(None, _LETTERS_AND_SPACE))
            return math.ceil(len(text) / 3.5 + _DENSE_ASCII * dense)
        data = text.encode("utf-8", "replace")
        dense = len(data.translate(None, _LETTERS_AND_SPACE))
        two_or_more = len(data.translate(None, _BELOW_TWO + bytes(range(0x80, 0xC0))))
        three_or_more = len(data.translate(None, _BELOW_THREE))
        four = len(data.translate(None, _BELOW_FOUR))
        weighed = (
            (len(text) - two_or_more) / 3.5
            + _DENSE_ASCII * dense
            + _TWO_BYTES * (two_or_more - three_or_more)
            + _THREE_BYTES * (three_or_more - four)
            + _FOUR_BYTES * four
        )
        return max(math.ceil(weighed), estimate_tokens(text))


class ImagePricing(TokenCounter):
    """Another counter's tokens of text, under a basis that names another formula for images."""

    def __init__(self, text: TokenCounter, basis: str) -> None:
        self._text = text
        self._basis = basis
        self.framing = text.framing
        self.splits_lines = text.splits_lines

    @property
    def basis(self) -> str:
        """The basis it was given."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the tokens of `text`, as the other counter does."""
        return self._text.count(text)


@functools.cache
def counter_for(
    encoding: str = "o200k_base",
    image_formula: str = DEFAULT_FORMULA,
    folder: Path | None = None,
) -> TokenCounter:
    """Return this process's counter for `encoding`, the fastest exact one that can be loaded.

    Its basis also names `image_formula`, by which messages with images are priced. Falls back to
    the heuristic, whose basis says so, when no library has or can fetch the vocabulary; that takes
    at most `tiktoken.DOWNLOAD_TIMEOUT_S` and is decided once per process. `file:NAME` is read from
    the folder, once per process, and has no stand-in. Raises UnknownEncoding for a name not in
    `ENCODINGS` and a file that cannot be used, InvalidInput for one not in `FORMULAS`.
    """
    if image_formula not in FORMULAS:
        raise InvalidInput(f"image formula {image_formula!r}: use one of {', '.join(FORMULAS)}")
    counter = _text_counter(encoding, folder)
    if image_formula == DEFAULT_FORMULA:
        return counter
    vocabulary = counter.basis.partition("/")[0]
    return ImagePricing(counter, basis(vocabulary, image_formula))


@functools.cache
def _text_counter(encoding: str, folder: Path | None) -> TokenCounter:
    if name := file_of(encoding):
        return FileCounter(name, folder)
    if encoding not in ENCODINGS:
        raise UnknownEncoding(
            f"encoding {encoding!r}: use one of {', '.join(ENCODINGS)}, or file:NAME"
        )
    if encoding != "heuristic":
        for library in (BpeCounter, TiktokenCounter):
            try:
                return library(encoding)
            # A library may be missing, lack the encoding, or fail in ways of its own (a download, a
            # corrupt cache): none of that may stop a session from being counted.
            except Exception:  # noqa: BLE001, S112
                continue
    return HeuristicCounter()
