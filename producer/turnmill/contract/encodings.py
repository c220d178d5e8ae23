"""Tokenizer vocabularies by name, and what text takes at most in those that agents do not have."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["ENCODINGS", "FILE", "bound_by_bytes", "file_of", "is_encoding"]

ENCODINGS: Final = ("o200k_base", "o200k_harmony", "cl100k_base", "heuristic")
"""Vocabularies by name; ``heuristic`` estimates from characters, for other models."""

FILE: Final = "file:"
"""Before the name of a ``tokenizer.json`` in a folder that the workers' operator chose."""

_FILE: Final = re.compile(r"file:[A-Za-z0-9][A-Za-z0-9._-]*\Z")

_UNNORMALIZED: Final = 3
"""How much longer text becomes at most, in UTF-8, when it is brought into Unicode's form NFC."""


def is_encoding(name: str) -> bool:
    """Whether a policy may name it; a file's name is no path, for tenants write policies."""
    return name in ENCODINGS or bool(_FILE.match(name))


def file_of(encoding: str) -> str:
    """The name of the file, without ``.json``; ``""`` for a vocabulary that turnmill knows."""
    return encoding.removeprefix(FILE) if encoding.startswith(FILE) else ""


def bound_by_bytes(data: bytes) -> int:
    """The most tokens that UTF-8 text has in any file that workers count with, by construction.

    They take tokenizers alone of which each token stands for a byte of the text or more, but for
    one that may be put before it (``turnmill_worker.tokens.tokenizer_files``). In the JSON of a
    message, what stands around the texts has more bytes than the formula adds.
    """
    if data.isascii() or unicodedata.is_normalized("NFC", data.decode("utf-8", "replace")):
        return len(data) + 1
    return _UNNORMALIZED * len(data) + 1
