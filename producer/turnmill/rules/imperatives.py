"""A clause in the imperative, taken apart: what stands before the verb, the verb, the rest."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from turnmill.rules.wording.lasting import (
    KEPT_VERBS,
    NOT_A_VERB,
    OFTEN_VERBS,
    STAND_VERBS,
)
from turnmill.rules.wording.lexicon import VERBS, words
from turnmill.rules.wording.phrases import (
    AGREED,
    BEFOREHAND,
    DOUBT,
    GENERIC_IF,
    GENERIC_WHEN,
    IMPERATIVE,
    MINE,
    OPENED,
    PARTICIPLE,
    TELL,
    TELLERS,
    TELLING,
    THIS_ONCE,
    TO_YOU,
)

__all__ = ["Order", "is_general", "order_in"]


class Order(NamedTuple):
    """A clause in the imperative: what stands before the verb, the verb, what follows it."""

    lead: str
    verb: str
    rest: str
    negative: bool


_SHORTEST_TOLD: Final = 3
_LONGEST_TOLD: Final = 60
"""In characters: what is told before a colon and a prohibition."""
_MOST_COMMAS: Final = 6
_OURS: Final = words("my our the this it's we've i've we i there's")


def order_in(low: str) -> Order | None:
    """The clause as an order: at once, or behind a condition and a comma."""
    if found := _parsed(low, ""):
        return found
    opened = OPENED.match(low)
    told, colon, behind = low.partition(": ")
    if (
        colon
        and _SHORTEST_TOLD < len(told) <= _LONGEST_TOLD
        and told.partition(" ")[0] not in TELLERS - _OURS
        and (found := _parsed(behind, ""))
        and found.negative
    ):
        return found
    at, telling = -1, False
    for _ in range(_MOST_COMMAS):
        began, at = at + 1, low.find(",", at + 1)
        if at < 0:
            return None
        rest = low[at + 1 :].lstrip()
        if rest.startswith("and ") and MINE.match(low):
            continue
        # "I log in, type the address" goes on telling; "I'm new here, please explain" does not.
        telling = telling or bool(TELLING.match(low[began:at].lstrip()))
        if AGREED.match(rest):
            return None
        if telling and not TO_YOU.match(rest):
            continue
        if found := _parsed(rest, low[opened.end() if opened else 0 : at]):
            return found
    return None


def _parsed(low: str, lead: str) -> Order | None:
    found = IMPERATIVE.match(low)
    if not found:
        return None
    verb, negative = found["verb"], found["not"] or ""
    if negative.startswith(("avoid", "refrain", "stop", "quit")):
        return Order(lead, negative.split()[0], f" {verb}{found['rest']}", negative=True)
    order = Order(lead, verb, found["rest"], negative=bool(negative))
    return order if _is_order(order, negative) else None


def _is_order(order: Order, negative: str) -> bool:
    """Whether what stands where the verb must stand can be one; `negative` is what forbids it."""
    verb, mark = order.verb, order.rest[:1]
    if order.lead and is_general(order):
        return verb not in NOT_A_VERB and not verb.endswith(("ed", "ing", "ly"))
    if negative == "never " and (PARTICIPLE.match(verb) or verb in NOT_A_VERB):
        return False
    if not order.lead and negative.startswith(("do", "never")) and verb not in TELLERS:
        return verb.isalpha() or verb in _ORDERING
    if verb not in _ORDERING or mark.strip(" ,.!:_\n"):
        return False
    return bool(order.lead or negative) or mark not in {",", "."}


_ORDERING: Final = VERBS | KEPT_VERBS | OFTEN_VERBS | STAND_VERBS


def is_general(order: Order) -> bool:
    """Whether the condition before an order can come true again and again."""
    if DOUBT.match(order.lead):
        return True
    if _IF.match(order.lead):
        told = TELL.match(order.verb) and not BEFOREHAND.search(order.rest)
        return bool(GENERIC_IF.match(order.lead)) and not told
    return (
        bool(GENERIC_WHEN.match(order.lead))
        and not (THIS_ONCE.search(order.lead) or TELL.match(order.verb))
        and bool(_WHOSE.search(order.lead))
    )


_IF: Final = re.compile(r"(?:and |but |so |also |please )*if\b")
_WHOSE: Final = re.compile(r"\b(?:you|i|we|a|an|any|every|each|anything|someone|something)\b")
