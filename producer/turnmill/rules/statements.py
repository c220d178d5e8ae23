"""Whether a clause states what holds from now on: who the user is, wants, allows, can afford."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.limits import LIMITS
from turnmill.rules.wording.people import PEOPLE
from turnmill.rules.wording.permissions import PERMISSIONS
from turnmill.rules.wording.refusals import REFUSED, TELLS
from turnmill.rules.wording.taking_back import TAKING_BACK
from turnmill.rules.wording.wishes import WISHES

__all__ = ["Pattern", "hinted", "refused", "stated"]


class Pattern(NamedTuple):
    """One way to lay something down; `rank` is its place among all, the first found counts."""

    rank: int
    kind: Kind
    beside: frozenset[str]
    found: Callable[[str], object]


_ESCAPED = re.compile(r"\\.|\[[^\]]*\]")
_ALL: Final = (*TAKING_BACK, *PEOPLE, *WISHES, *LIMITS, *PERMISSIONS)


def _is_anchored(pattern: str) -> bool:
    """Whether each alternative of a pattern opens with ``^``."""
    depth, at_start = 0, True
    for mark in _ESCAPED.sub("", pattern):
        if at_start and mark != "^":
            return False
        depth += (mark == "(") - (mark == ")")
        at_start = mark == "|" and depth == 0
    return True


def _indexed() -> dict[str, list[Pattern]]:
    found = defaultdict(list)
    for rank, (kind, hints, beside, pattern) in enumerate(_ALL):
        compiled = re.compile(pattern)
        # Where it can only stand in front, looking for it farther on would cost half of all.
        find = compiled.match if _is_anchored(pattern) else compiled.search
        known = Pattern(rank, kind, frozenset(beside.split()), find)
        for hint in set(hints.split()):
            found[hint].append(known)
    return dict(found)


_BY_HINT: Final[dict[str, list[Pattern]]] = _indexed()
_REFUSED = re.compile(REFUSED)
_TELLS = re.compile(TELLS)


def hinted(words: AbstractSet[str]) -> list[Pattern]:
    """The patterns that may be found beside these words, in their order."""
    by_rank = {
        each.rank: each
        for hint in words & _BY_HINT.keys()
        for each in _BY_HINT[hint]
        if not each.beside or not each.beside.isdisjoint(words)
    }
    return [by_rank[rank] for rank in sorted(by_rank)]


def stated(clause: str, patterns: list[Pattern]) -> Kind | None:
    """What the clause lays down by saying how things are, or ``None``."""
    kind = next((known.kind for known in patterns if known.found(clause)), None)
    return None if kind is None or _TELLS.search(clause) else kind


def refused(clause: str) -> bool:
    """Whether the clause tells of the past, doubts, or gives somebody else's words."""
    return bool(_REFUSED.search(clause))
