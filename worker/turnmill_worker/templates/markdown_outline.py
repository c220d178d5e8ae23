"""The two parts of markdown by which a template is read: headings and fences."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Fence", "Heading", "Outline", "outline"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?$")


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that starts with ``#``; lines count from 1."""

    line: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Fence:
    """A block between two lines of backticks or tildes.

    Attributes:
        line: of its opening.
        end: of its closing; None when it has none and runs to the end of the text.
        info: what follows the opening, as ``json``.
        under: title of the nearest heading of level 1 or 2 above it, or ``""``.
    """

    line: int
    end: int | None
    info: str
    under: str

    def holds(self, line: int) -> bool:
        """Whether the line is its opening, its closing, or between them."""
        return self.line <= line and (self.end is None or line <= self.end)


@dataclass(frozen=True, slots=True)
class Outline:
    """The headings outside fences, and the fences, in order."""

    headings: tuple[Heading, ...]
    fences: tuple[Fence, ...]


def outline(text: str) -> Outline:
    """The text's headings and fences, as CommonMark finds them; linear in its length."""
    headings: list[Heading] = []
    fences: list[Fence] = []
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        fence = _FENCE.match(line)
        if opened is not None:
            if fence and _closes(fence, opened[1]):
                fences.append(Fence(opened[0], number, opened[2], _chapter(headings)))
                opened = None
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            opened = (number, fence[1], fence[2].strip())
        elif heading := _HEADING.match(line):
            headings.append(Heading(number, len(heading[1]), _title(heading[2] or "")))
    if opened is not None:
        fences.append(Fence(opened[0], None, opened[2], _chapter(headings)))
    return Outline(tuple(headings), tuple(fences))


def _closes(fence: re.Match[str], opening: str) -> bool:
    return fence[1].startswith(opening) and not fence[2].strip()


def _chapter(headings: list[Heading]) -> str:
    return next((each.title for each in reversed(headings) if each.level <= 2), "")  # noqa: PLR2004


def _title(text: str) -> str:
    """The heading's words; a closing run of ``#`` is decoration when a space parts it."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title
