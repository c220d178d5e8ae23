"""Texts as passages, the unit that is searched: what a message says about one thing."""

from __future__ import annotations

from array import array
from typing import Final

__all__ = ["LONGEST", "Passages", "excerpt", "split"]

LONGEST: Final = 800
"""Characters of a passage. A message that is not longer is one passage."""

_ENDS: Final = ("\n\n", "\n", ". ", " ")
"""Where a passage may end, best first; a text without any is cut anywhere."""


def split(text: str) -> list[str]:
    """The text cut into as few passages as end where a thought does; nothing is left out."""
    found: list[str] = []
    start = 0
    while len(text) - start > LONGEST:
        end = _end(text, start)
        found.append(text[start:end])
        start = end
    return [*found, text[start:]]


def _end(text: str, start: int) -> int:
    most = start + LONGEST
    for mark in _ENDS:
        if (at := text.rfind(mark, start + 1, most)) >= 0:
            return at + len(mark)
    return most


def excerpt(text: str, place: int) -> str:
    """One passage of a text as people quote it: with an ellipsis where the text goes on."""
    passages = split(text)
    before = "… " if place else ""
    after = " …" if place < len(passages) - 1 else ""
    return f"{before}{passages[place].strip()}{after}"


class Passages:
    """Which passages belong together. Numbers rise; a memory's are in a row and it has the first.

    Attributes:
        memory: the number of the memory, by passage.
    """

    def __init__(self) -> None:
        self.memory = array("I")

    def add(self, count: int) -> range:
        """Numbers for the passages of one more memory."""
        memory = len(self.memory)
        self.memory.extend([memory] * count)
        return range(memory, memory + count)

    def of(self, memory: int) -> range:
        """A memory's passages."""
        end = memory + 1
        while end < len(self.memory) and self.memory[end] == memory:
            end += 1
        return range(memory, end)
