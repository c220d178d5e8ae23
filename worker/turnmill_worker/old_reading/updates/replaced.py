"""Names that a sentence says were replaced: "we switched from Postgres to MySQL"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from turnmill.rules.wording.english import stem
from turnmill.rules.wording.slots import SLOTS
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates.values import words_of
from turnmill_worker.old_reading.updates.wording import EMPTY, HYPOTHETICAL, REPLACED, REPLACING

__all__ = ["SPEAKERS", "replaced_names"]

SPEAKERS: Final = frozenset({Source.USER, Source.ASSISTANT, Source.EARLIER, Source.SYSTEM})
"""Whose sentences state values; what a tool returns has fields."""

_MOST: Final = 32
"""Sentences that name what they replace, the newest: each is looked for in all before it."""

_FEW: Final = 2
_STATED: Final = (
    r"(?:\b(?:is|are|be|on|in|at|to|with|by|called|named|uses?|using|choose|chose|prefer|want|like"
    r"|runs?|book|take|ist|in|bei|nach|est|es|en)|:) (?:[a-z]+ ){0,2}?"
)


def replaced_names(found: Units) -> Iterator[tuple[int, str, int]]:
    """Positions of units that state a name, the name, and the unit that says it is replaced."""
    said = (
        (at, name)
        for at in range(len(found.units) - 1, -1, -1)
        if found.lines[found.units[at].line].source is Source.USER and not found.units[at].body_at
        for name in _replaced(found.units[at].text)
    )
    for at, name in islice(said, _MOST):
        yield from _stating(found, name, at)


@lru_cache(maxsize=1 << 14)
def _replaced(text: str) -> tuple[str, ...]:
    """The names that a sentence says no longer hold."""
    return tuple(_names_replaced(text))


def _names_replaced(text: str) -> Iterator[str]:
    low = text.lower()
    if not any(map(low.__contains__, REPLACING)):
        return
    for match in REPLACED.finditer(text):
        name = next(filter(None, match.groups()), "").strip(" \"'“”`*")
        name = re.sub(r"^(?:the|a|an|my|our|at|in|on|using) ", "", name)
        named = any(map(str.isupper, name)) or "-" in name or name.lower() in SLOTS
        if named and not HYPOTHETICAL.search(text[max(0, match.start() - 45) : match.start()]):
            yield name


def _stating(found: Units, name: str, before: int) -> Iterator[tuple[int, str, int]]:
    stated = re.compile(rf"{_STATED}({re.escape(name)})(?![\w-])", re.IGNORECASE)
    about = _roots(found.units[before].text)
    own = frozenset(map(stem, name.lower().split()))
    low = name.lower()
    hits = [at for at in range(before) if low in found.units[at].text.lower()]
    for at in hits:
        unit = found.units[at]
        match = stated.search(unit.text)
        if not match or not unit.is_prose or found.lines[unit.line].source not in SPEAKERS:
            continue
        if len(hits) <= _FEW or (_roots(unit.text) & about) - own:
            yield at, match[1], before


def _roots(text: str) -> frozenset[str]:
    words = (token.text.lower() for token in words_of(text, 0, len(text)))
    return frozenset(stem(word) for word in words if word not in EMPTY)
