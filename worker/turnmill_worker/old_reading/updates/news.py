"""Whether the words around a value say that it is new."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from turnmill_worker.old_reading.updates.values import Value
from turnmill_worker.old_reading.updates.wording import (
    ADDS,
    CHANGES,
    CLOCK,
    DONE,
    FROM,
    GOAL_IS,
    HYPOTHETICAL,
    LINK,
    NEW,
    NEW_ONE,
    NOW_AFTER,
    NOW_BEFORE,
    OLD_GONE,
    PAST,
    TO,
    WISH,
)

__all__ = ["is_new", "is_news", "is_unreal", "replaced_value"]

_NEAR: Final = 45
"""Characters within which "if" or "could" makes a change one that did not happen."""

_BESIDE: Final = 25
_CLAUSE = re.compile(r"[;!?]|\.\s")


@lru_cache(maxsize=1 << 14)
def is_news(text: str) -> bool:
    """Whether an assistant says that it has changed something, or that it was changed."""
    return DONE.search(text) is not None and CHANGES.search(text) is not None


def is_new(lead: str, rest: str, own: str) -> bool:
    """Whether the words before and behind a value say that it replaces another.

    ``own`` are the words before it that no other value stands before.
    """
    clause = _CLAUSE.split(lead)[-1]
    linked = LINK.search(clause)
    if linked:
        changes = list(CHANGES.finditer(clause))
        if changes and _happened(clause[: changes[-1].start()], changes[-1][0]):
            return True
    signs = list(NOW_BEFORE.finditer(_CLAUSE.split(own)[-1]))
    if signs and not CLOCK.search(lead):
        return _is_stated(_CLAUSE.split(own)[-1], signs[-1])
    if (linked and NEW.search(clause[: linked.start()].rstrip())) or NEW_ONE.search(clause):
        return True
    if OLD_GONE.match(rest):
        return True
    return NOW_AFTER.match(rest) is not None and not HYPOTHETICAL.search(clause[-_NEAR:])


def is_unreal(lead: str) -> bool:
    """Whether the words before a value say that it was, or that somebody wishes it were."""
    wished = WISH.search(lead[-_BESIDE:]) is not None and not GOAL_IS.search(lead)
    return wished or PAST.search(lead) is not None


def replaced_value(earlier: Value | None, value: Value, text: str) -> str:
    """The value that "from 5 to 7" says was there before; ``""`` if it is not said."""
    if earlier is None:
        return ""
    bare = earlier.kind == "count" and not earlier.counted
    if earlier.kind != value.kind and not bare:
        return ""
    said, between = text[: earlier.start], text[earlier.end : value.start]
    named = FROM.search(said) and TO.fullmatch(between) and CHANGES.search(said)
    return earlier.exact if named else ""


def _happened(said: str, verb: str) -> bool:
    """Whether a change is told, neither imagined nor only wished for, nor one thing more."""
    if HYPOTHETICAL.search(said[-_NEAR:]) or ADDS.search(said[-_NEAR:]):
        return False
    wished = WISH.search(said[-_NEAR:]) is not None
    return not wished or verb.lower().endswith(("d", "n", "ing"))


def _is_stated(clause: str, sign: re.Match[str]) -> bool:
    said, between = clause[: sign.start()], clause[sign.end() :]
    unreal = HYPOTHETICAL.search(f"{said[-_NEAR:]} {between}") or WISH.search(between)
    return not unreal and not ADDS.search(between)
