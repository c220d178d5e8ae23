"""Which rules stay when they exceed their bound: those that do most harm when they are lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from turnmill.rules.kinds import Clause, Kind, Rule
from turnmill.rules.scored import score
from turnmill.rules.wording.illness import HARMFUL

__all__ = ["kept", "weight"]

Ranked = TypeVar("Ranked", Rule, Clause)

# A forgotten allergy hurts, a forgotten style annoys, a forgotten permission only asks again.
_WEIGHTS: Final = {
    Kind.PROHIBITION: 5.0,
    Kind.IDENTITY: 4.5,
    Kind.LIMIT: 4.5,
    Kind.COMMAND: 4.0,
    Kind.POLICY: 3.0,
    Kind.DEADLINE: 4.0,
    Kind.FORMAT: 3.5,
    Kind.PREFERENCE: 3.0,
    Kind.REVOCATION: 2.5,
    Kind.PERMISSION: 2.0,
}
_FIRM = re.compile(
    r"\b(?:always|never|must|under no circumstances|no matter what|every|each|from now on|whenever"
    r"|important|immer|nie|niemals|toujours|jamais|siempre|nunca|sempre|mai|altijd|nooit)\b",
    re.IGNORECASE,
)
_HARM: Final = 3.0
_FIRMNESS: Final = 1.0
_RECENT: Final = 1.0
_LONG: Final = 200
_SOUND: Final = 0.5
_LEAST_ODDS: Final = -2.0
_MOST_ODDS: Final = 4.0
"""What a policy is worth besides, by how much it sounds like a rule: mostly that is all that
speaks for it."""


def kept(rules: Sequence[Ranked], bound: int, cost: Callable[[Ranked], int]) -> list[int]:
    """The positions of the rules that fit the bound, in the order they were said.

    Rules are kept whole; one too dear for what is left does not keep lesser ones out.
    """
    order = sorted(range(len(rules)), key=lambda at: (-weight(rules[at], at, len(rules)), -at))
    left, found = bound, []
    for at in order:
        price = cost(rules[at])
        if price <= left:
            left -= price
            found.append(at)
    return sorted(found)


def weight(rule: Rule | Clause, at: int, count: int) -> float:
    """How much a rule is worth keeping; `at` is its place among `count`, oldest first."""
    worth = _WEIGHTS[rule.kind]
    if rule.kind is Kind.POLICY:
        worth += _SOUND * max(_LEAST_ODDS, min(_sounds(rule.text), _MOST_ODDS))
    worth += _HARM if HARMFUL.search(rule.text) else 0.0
    worth += _FIRMNESS if _FIRM.search(rule.text) else 0.0
    worth += _RECENT * (at + 1) / max(count, 1)
    return worth * (_LONG / len(rule.text) if len(rule.text) > _LONG else 1.0)


@lru_cache(maxsize=4096)
def _sounds(text: str) -> float:
    return score(text.lower())
