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
_CHAR: Final = "[A-Za-z0-9+/_-]"
_BREAK: Final = r"(?:\r?\n|(?:\\{1,4}r)?\\{1,4}n)[ \t]{0,16}"
"""Between the lines that mail, PEM files and the program base64 write; JSON may stand in JSON."""

_LINE: Final = r"[A-Za-z0-9+/]{60,100}(?![A-Za-z0-9+/])"
_LAST: Final = rf"{_BREAK}[A-Za-z0-9+/]+={{0,2}}(?=[\r\n\\\"']|\Z)"
_LINES: Final = rf"{_LINE}(?:{_BREAK}{_LINE}){{6,}}={{0,2}}(?:{_LAST})?"
_RUN: Final = re.compile(rf"(?<!{_CHAR})(?:{_CHAR}{{{LEAST},}}={{0,2}}|{_LINES})")
_ESCAPED: Final = re.compile(
    rf"(?<!{_CHAR})(?:(?:{_CHAR}|\\{{1,4}}/){{{LEAST},}}={{0,2}}|{_LINES})"
)
"""Also as some write JSON: with each slash escaped. Slower."""

_BREAKS: Final = re.compile(_BREAK)
_MOST_OF_HEX: Final = 20
"""More different characters, with line breaks among them, no list of hashes has."""

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
    for run in (_ESCAPED if "\\/" in text else _RUN).finditer(text):
        start, data = run.start(), run[0]
        is_lines = "\n" in data or "\\n" in data
        if len(set(data[:LEAST])) < (_MOST_OF_HEX if is_lines else _LEAST_LETTERS):
            continue
        # Of other lengths they are no data; the first one may begin with the rest of an escape.
        if is_lines and len({len(line) for line in _BREAKS.split(data)[1:-1]}) > 1:
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
