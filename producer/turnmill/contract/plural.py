"""Numbers of things in words."""

from __future__ import annotations

import re


def plural(number: int, noun: str) -> str:
    """The noun as so many of it are called: ``turn``, ``turns``, ``memories``."""
    if number == 1:
        return noun
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


def count(number: int, noun: str) -> str:
    """``1 turn``, ``1,200 turns``, ``2 memories``."""
    return f"{number:,} {plural(number, noun)}"
