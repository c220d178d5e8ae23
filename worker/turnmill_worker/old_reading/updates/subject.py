"""What a value is of, by the words around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnmill.rules.wording.english import stem
from turnmill_worker.old_reading.updates.values import Token
from turnmill_worker.old_reading.updates.wording import (
    CONTRASTS,
    EMPTY,
    JOINING,
    LIGHT,
    OWNERS,
    SAME,
)

__all__ = ["Subject", "subject_of"]

_BEFORE: Final = 8
_BEHIND: Final = 6
"""Words around a value that say what it is of."""

_FARTHER: Final = 0.85
_LETTERS: Final = 2
_CLOSE: Final = 40
"""So many characters away, "daily" or "first" is said of the value."""


@dataclass(slots=True)
class Subject:
    """What a value is of.

    Attributes:
        roots: of the words around it, the nearest first.
        names: those of them that were written as a name.
        contrasts: words of which a thing has one: its first, its daily, its left; by their group.
        modifiers: of a root, the roots behind or before it that say which: the budget *for food*.
        owners: of a root, whose it is.
    """

    roots: tuple[str, ...] = ()
    names: set[str] = field(default_factory=set)
    contrasts: dict[str, str] = field(default_factory=dict)
    modifiers: dict[tuple[str, bool], set[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    _nearness: dict[str, float] = field(default_factory=dict)
    _which: dict[str, set[str]] = field(default_factory=dict)

    @property
    def nearness(self) -> dict[str, float]:
        """What each root counts: the farther from the value, the less. Worked out once."""
        if not self._nearness:
            self._nearness = {root: math.pow(_FARTHER, at) for at, root in enumerate(self.roots)}
        return self._nearness

    def which(self, root: str) -> set[str]:
        """What says, before or behind a root, which one it is. Worked out once."""
        found = self._which.get(root)
        if found is None:
            sides = (self.modifiers.get((root, side), ()) for side in (False, True))
            found = self._which[root] = set[str]().union(*sides)
        return found


def subject_of(
    words: Sequence[Token], start: int, end: int, counted: Iterable[str] = ()
) -> Subject:
    """What the words around a place are about; ``counted`` roots come first."""
    subject = Subject()
    ahead: list[str] = []
    behind: list[str] = []
    chain = _Chain(subject)
    for at, word in enumerate(words):
        low = word.text.lower().replace("’", "'")
        near = word.end > start - _CLOSE and word.start < end + _CLOSE
        if near and (contrast := CONTRASTS.get(low)):
            subject.contrasts.setdefault(*contrast)
        is_name = at > 0 and word.text[0].isupper() and low.partition("'")[0] != "i"
        root = chain.root_of(low, word, is_name=is_name)
        if root:
            if is_name and not word.text.isupper():
                subject.names.add(root)
            (ahead if word.end <= start else behind).extend(_with_parts(low, root))
    near_by = [*sorted(counted), *reversed(ahead[-_BEFORE:]), *behind[:_BEHIND]]
    subject.roots = tuple(dict.fromkeys(near_by))
    subject.names &= set(subject.roots)
    return subject


def _with_parts(low: str, root: str) -> list[str]:
    """The root, and those of the words that a hyphen joins: an access-code is a code."""
    parts = low.split("-") if "-" in low else ()
    return [*(stem(part) for part in parts if len(part) > _LETTERS and part not in EMPTY), root]


class _Chain:
    """Notes which words say which one another is, word by word."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._last = self._joined = self._owner = ""
        self._end = -1

    def root_of(self, low: str, word: Token, *, is_name: bool) -> str:
        """The word's root; ``""`` if it says little by itself."""
        base, is_owner, _ = low.partition("'s")
        if owner := OWNERS.get(low):
            self._owner = owner
            return ""
        beside = word.start - self._end <= 1
        if not is_name and (low in EMPTY or base in EMPTY):
            self._skip(low, word, beside=beside)
            return ""
        root = stem(base)
        root = SAME.get(root, SAME.get(base, root))
        self._note(root, beside=beside, is_owner=bool(is_owner))
        self._joined, self._last, self._end = "", root, word.end
        return root

    def _skip(self, low: str, word: Token, *, beside: bool) -> None:
        if low in JOINING:
            self._joined = self._last if beside else ""
        elif low not in LIGHT:
            self._joined = self._last = ""
        elif beside:
            self._end = word.end

    def _note(self, root: str, *, beside: bool, is_owner: bool) -> None:
        subject = self._subject
        if is_owner:
            subject.names.add(root)
            self._owner = root
        elif self._owner:
            subject.owners[root] = self._owner
            self._owner = ""
        if self._joined:
            subject.modifiers.setdefault((self._joined, True), set()).add(root)
        elif self._last and beside:
            subject.modifiers.setdefault((root, False), set()).add(self._last)
