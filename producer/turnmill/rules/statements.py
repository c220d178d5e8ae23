"""Whether a clause states what holds from now on: who the user is, wants, allows, can afford."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.limits import LIMITS
from turnmill.rules.wording.people import PEOPLE
from turnmill.rules.wording.permissions import PERMISSIONS
from turnmill.rules.wording.policies import POLICIES
from turnmill.rules.wording.refusals import REFUSED
from turnmill.rules.wording.taking_back import TAKING_BACK
from turnmill.rules.wording.wishes import WISHES

__all__ = ["HINTS", "Pattern", "hinted", "refused", "stated"]


class Pattern(NamedTuple):
    """One way to lay something down; `rank` is its place among all, the first found counts."""

    rank: int
    kind: Kind
    beside: frozenset[str]
    pattern: re.Pattern[str]


_ALL: Final = (*TAKING_BACK, *PEOPLE, *WISHES, *LIMITS, *PERMISSIONS, *POLICIES)


def _indexed() -> dict[str, list[Pattern]]:
    found = defaultdict(list)
    for rank, (kind, hints, beside, pattern) in enumerate(_ALL):
        known = Pattern(rank, kind, frozenset(beside.split()), re.compile(pattern))
        for hint in set(hints.split()):
            found[hint].append(known)
    return dict(found)


_BY_HINT: Final = _indexed()
HINTS: Final = frozenset(_BY_HINT)
_REFUSED = re.compile(REFUSED)


def hinted(words: AbstractSet[str]) -> list[Pattern]:
    """The patterns that may be found beside these words, in their order."""
    found = words & HINTS
    if not found:
        return []
    by_rank = {
        known.rank: known
        for hint in found
        for known in _BY_HINT[hint]
        if not known.beside or not known.beside.isdisjoint(words)
    }
    return [by_rank[rank] for rank in sorted(by_rank)]


def stated(clause: str, patterns: list[Pattern]) -> Kind | None:
    """What the clause lays down by saying how things are, or ``None``."""
    return next((known.kind for known in patterns if known.pattern.search(clause)), None)


def refused(clause: str) -> bool:
    """Whether the clause tells of the past, doubts, or gives somebody else's words."""
    return bool(_REFUSED.search(clause))
