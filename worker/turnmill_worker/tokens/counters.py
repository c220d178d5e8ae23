"""Which counter serves an encoding: bpe-openai, then tiktoken, then the heuristic."""

from __future__ import annotations

import functools
from pathlib import Path

from turnmill.contract.errors import InvalidInput, UnknownEncoding
from turnmill.contract.estimate import ENCODINGS, file_of
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill_worker.tokens.basis import basis
from turnmill_worker.tokens.bpe_openai import BpeCounter
from turnmill_worker.tokens.heuristic import HeuristicCounter
from turnmill_worker.tokens.messages import TokenCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter
from turnmill_worker.tokens.tokenizer_files import FileCounter


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
