"""Base64 and other long runs of data inside texts: what stands in their place where room is short.

Whoever reads a text gains nothing from them: they are neither words nor names, and a thousand of
their characters cost some seven hundred tokens.
"""

from __future__ import annotations

import re
from typing import Final

LEAST: Final = 512
"""A shorter run stays: it may be a key, a signature or a token that somebody needs."""

_LEAST_LETTERS: Final = 10
"""Fewer different characters are no data but a line, or one letter again and again."""

# It begins where no such character is before it, so that no run is looked at twice.
_RUN: Final = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{LEAST},}}={{0,2}}")
_URL: Final = re.compile(r"data:([\w.+-]{1,127}/[\w.+-]{1,127})?(?:;[\w.+-]+=[\w.+-]+)*;base64,\Z")
_MOST_HEAD: Final = 300
_ESCAPE: Final = 5
"""Characters of a JSON escape behind its backslash, at most: they must not be torn off."""


def without_base64(text: str) -> str:
    """The text with a note for each run of data in it, of its type and size. Linear."""
    if len(text) < LEAST:
        return text
    kept: list[str] = []
    done = 0
    for run in _RUN.finditer(text):
        start, data = run.start(), run[0]
        if len(set(data[:LEAST])) < _LEAST_LETTERS:
            continue
        head = text[max(start - _MOST_HEAD, done) : start]
        url = _URL.search(head)
        if text[start - 1 : start] == "\\":
            start += _ESCAPE
        kind = f"{url[1]}, " if url and url[1] else ""
        note = f"[{kind}{_size(len(data) * 3 // 4)} of base64 removed]"
        kept += [text[done : start - len(url[0]) if url else start], note]
        done = run.end()
    return "".join([*kept, text[done:]]) if kept else text


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"  # noqa: PLR2004
