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

_LINE: Final = r"[A-Za-z0-9+/]{60,77}(?![A-Za-z0-9+/])"
"""They write 60 to 76; before the first may stand the end of an escape."""

_LAST: Final = rf"{_BREAK}[A-Za-z0-9+/]+={{0,2}}(?=[\r\n\\\"']|\Z)"
_LINES: Final = rf"{_LINE}(?:{_BREAK}{_LINE}){{6,}}(?:={{1,2}}|{_LAST})?"
_RUN: Final = re.compile(rf"(?<!{_CHAR})(?:{_CHAR}{{{LEAST},}}={{0,2}}|{_LINES})")
_SLASH: Final = r"\\{1,4}/"
_DATA: Final = rf"(?:{_CHAR}|{_SLASH}){{{LEAST}}}(?:{_CHAR}++|{_SLASH})*+={{0,2}}"
_ESCAPED: Final = re.compile(rf"(?<!{_CHAR})(?!(?<=\\)[\\/])(?:{_DATA}|{_LINES})")
"""Also as some write JSON: with each slash escaped. Slower; begins within no escape of a slash."""

_BREAKS: Final = re.compile(_BREAK)
_LEAST_LETTERS_OF_LINES: Final = 32
"""Fewer are hashes, paths that end in hashes, or a protein, one in each line."""

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
        if not _is_data(data):
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


def _is_data(run: str) -> bool:
    first, *lines = _BREAKS.split(run)
    letters = len(set("".join((first, *lines))[:LEAST]))
    # Of other lengths they are no data; the first one may begin with the rest of an escape.
    is_even = len({len(line) for line in lines[:-1]}) <= 1
    return is_even and letters >= (_LEAST_LETTERS_OF_LINES if lines else _LEAST_LETTERS)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size // 1000, 1)} kB"  # noqa: PLR2004
