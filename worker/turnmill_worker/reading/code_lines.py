"""Telling what somebody wrote in a language from code, logs and markup; by marks, not by words."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_code", "is_fence", "is_heading"]

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6}\s|\*\*[^*]{1,80}\*\*:?$")
_WORD = re.compile(r"(?<![\w.(/=<-])[^\W\d_]{2,}(?:['’-][^\W\d_]+)*(?=[\s.,;:!?)\"”]|$)")
_MARKS = re.compile(r"[{}()<>\[\]=;|\\_`$]|->|::|//|/\*|--")
_SIGNS: Final = 0.4
"""So many marks of code for each plain word make a line code."""


def is_fence(text: str) -> bool:
    """Whether this line opens or ends a block of code in Markdown."""
    return _FENCE.match(text) is not None


def is_heading(text: str) -> bool:
    """Whether this line only names what follows."""
    return _HEADING.match(text) is not None


def is_code(text: str) -> bool:
    """Whether this line reads as code, a log or markup rather than as a sentence."""
    words = len(_WORD.findall(text))
    marks = len(_MARKS.findall(text))
    if not words:
        return marks > 0
    return marks > _SIGNS * words
