"""Telling what somebody wrote in a language from code, logs and markup; by marks, not by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["coded", "is_code", "is_heading"]

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6}\s|\*\*[^*]{1,80}\*\*:?$")
_WORD = re.compile(r"(?<![\w.(/=<-])[^\W\d_]{2,}(?:['’-][^\W\d_]+)*(?=[\s.,;:!?)\"”]|$)")
# An amount of money is no mark of code.
_MARKS = re.compile(r"[{}()<>\[\]=;|\\_`]|\$(?! ?\d)|->|::|//|/\*|--")
_FEW: Final = 4
_SIGNS: Final = 0.4
"""So many marks of code for each plain word make a line code."""


def coded(texts: Sequence[str]) -> list[bool]:
    """Which lines of one message are code, a log or markup; none where these are a few."""
    inside = False
    found = []
    for text in texts:
        mark = _FENCE.match(text) is not None
        found.append(inside or mark or is_code(text))
        inside ^= mark
    return found if sum(found) > _FEW else [False] * len(texts)


def is_heading(text: str) -> bool:
    """Whether this line only names what follows."""
    return _HEADING.match(text) is not None


@lru_cache(maxsize=1 << 13)
def is_code(text: str) -> bool:
    """Whether this line reads as code, a log or markup rather than as a sentence."""
    words = len(_WORD.findall(text))
    marks = len(_MARKS.findall(text))
    if not words:
        return marks > 0
    return marks > _SIGNS * words
