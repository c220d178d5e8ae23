"""Exact counts by a ``tokenizer.json`` from the operator's folder, as models come with it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from turnmill.contract.errors import UnknownEncoding
from turnmill.contract.estimate import FILE
from turnmill_worker.tokens.basis import basis
from turnmill_worker.tokens.messages import TokenCounter
from turnmill_worker.tokens.surrogates import mended
from turnmill_worker.tokens.tokenizer_kinds import why_unbounded

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["FileCounter"]


class FileCounter(TokenCounter):
    """Counts text with a tokenizer of a file; special tokens in the text are text.

    Chat templates write other tokens around a message than OpenAI's three: by those published,
    Llama 3, Qwen and Gemma write 4 beside the role, and Mistral's first 8 for a question with its
    answer. So 6 is a guess on the safe side.
    """

    framing = 6

    def __init__(self, name: str, folder: Path | None) -> None:
        """Load ``NAME.json`` from the folder: some tenths of a second, once per process.

        Raises:
            UnknownEncoding: there is no such file here, or it cannot be used; says why.
        """
        body = _body(name, folder)
        self._tokenizer = _loaded(name, body)
        self._basis = basis(f"{FILE}{name}@{hashlib.sha256(body).hexdigest()[:8]}")

    @property
    def basis(self) -> str:
        """The file's name and contents, and the formula version: another file counts anew."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the exact number of tokens in `text`; never raises, whatever the text."""
        try:
            return len(self._tokenizer.encode(text, add_special_tokens=False))
        except TypeError:  # lone surrogates
            return len(self._tokenizer.encode(mended(text), add_special_tokens=False))


def _body(name: str, folder: Path | None) -> bytes:
    if folder is None:
        raise _unknown(name, "the workers' TURNMILL_TOKENIZER_DIR is not set")
    try:
        return (folder / f"{name}.json").read_bytes()
    except OSError as error:
        why = f"{name}.json in the workers' TURNMILL_TOKENIZER_DIR cannot be read"
        raise _unknown(name, f"{why} ({error.strerror})") from None


def _loaded(name: str, body: bytes) -> Tokenizer:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
    except ImportError:
        raise _unknown(name, "the worker lacks the package tokenizers (extra tokenizers)") from None
    try:
        tokenizer = Tokenizer.from_buffer(body)
    # The library raises plain exceptions, whose words may quote the file.
    except Exception:  # noqa: BLE001
        raise _unknown(name, f"{name}.json is no tokenizer.json that it can read") from None
    if why := why_unbounded(tokenizer):
        raise _unknown(name, f"no bound by bytes holds for its tokens: {why}")
    # Files carry what suits training: each text is counted whole, and alone.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _unknown(name: str, why: str) -> UnknownEncoding:
    return UnknownEncoding(f"encoding {FILE}{name}: {why}")
