"""What a user shows of other work, to say how it is done: nothing in it is of this session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["without_demonstrations"]

_NAMES: Final = r"demonstration|demo|example|walk-?through|beispiel|exemple|ejemplo"
_MENTIONS = re.compile(_NAMES, re.IGNORECASE)
_BANNER = re.compile(r"\s{0,8}[-=*#]{3,}[ \t]*([A-Za-z][^\n]{1,60}?)[ \t]*[-=*#]{3,}\s{0,8}")
_TAG = re.compile(r"\s{0,8}<(/?)([A-Za-z][\w -]{0,40})>\s{0,8}")
_SHOWS = re.compile(rf"\b(?:{_NAMES})s?\b", re.IGNORECASE)
_ENDS = re.compile(r"(?:the )?(?:end|ende|fin)\b", re.IGNORECASE)
_FENCE = re.compile(r"\s{0,8}(?:```|~~~)")
_SPEAKER = re.compile(r"\W{0,4}(?:user|human|assistant|ai|agent|system)\W{0,2}:", re.IGNORECASE)
_EXCHANGES: Final = 4
"""So many fences, or turns of speakers, make a text a record of work; fewer show a form."""

_LONGEST_LINE: Final = 120
_MOST_INSIDE: Final = 8
"""So many other lines that name an example are passed; this keeps reading linear."""


def without_demonstrations(text: str) -> str:
    """The text, where each demonstration is a line that says how long it was.

    A demonstration is a record of work, with what was ordered and what was said, between two lines
    that name it as an example. What nothing closes stays; so does an example of a form.
    """
    if not _MENTIONS.search(text):
        return text
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = _end_of(lines, at)
        if end:
            kept.append(f"[A demonstration of {end - at - 1} lines stood here.]")
        else:
            kept.append(lines[at])
        at = end + 1 if end else at + 1
    return "\n".join(kept) if len(kept) < len(lines) else text


def _end_of(lines: Sequence[str], at: int) -> int:
    """The line that closes the demonstration this one opens; 0 if it opens none."""
    name = _named(lines[at])
    if not name or name.startswith("/") or _ENDS.match(name):
        return 0
    worked = inside = 0
    for place in range(at + 1, len(lines)):
        other = _named(lines[place])
        if other and (other == f"/{name}" or _ENDS.match(other)):
            return place if worked >= _EXCHANGES else 0
        inside += bool(other)
        if other == name or inside > _MOST_INSIDE:
            # Another one begins: this one closes nowhere.
            return 0
        worked += bool(_FENCE.match(lines[place]) or _SPEAKER.match(lines[place]))
    return 0


def _named(line: str) -> str:
    """What a line on its own opens or closes, if that is an example; with the / of a tag."""
    if len(line) > _LONGEST_LINE:
        return ""
    if found := _BANNER.fullmatch(line):
        name = found[1]
    elif found := _TAG.fullmatch(line):
        name = f"{found[1]}{found[2]}"
    else:
        return ""
    return name.lower() if _SHOWS.search(name.replace("_", " ")) else ""
