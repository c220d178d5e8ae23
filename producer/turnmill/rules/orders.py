"""Whether a clause orders something that lasts: a command, a prohibition, a form to keep to."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from turnmill.rules.fragments import fragment, names_form
from turnmill.rules.imperatives import Order, is_general, order_in
from turnmill.rules.keeping import is_kept
from turnmill.rules.kinds import Kind
from turnmill.rules.wording.each import ALL, EVERY, SHOWN, WHEN_YOU
from turnmill.rules.wording.lasting import (
    FOR_ONCE,
    KEPT_VERBS,
    OFTEN_VERBS,
    OPENING,
    STAND_VERBS,
)
from turnmill.rules.wording.lexicon import SOFT, STYLE, VERBS, words
from turnmill.rules.wording.phrases import (
    ANAPHOR,
    BY_ITSELF,
    CHATTER_SAID,
    COMPOSED,
    CONDITIONS,
    EMBEDDED,
    FORM_HINTS,
    FORMATS_SAID,
    GATED,
    HINTS,
    LED_UP,
    NEGATED_TAIL,
    ONE_MADE,
    ONE_THING,
    OPENED,
    STANDING_SAID,
    TELLERS,
    THIS_ONCE,
)

__all__ = ["may_follow", "may_open", "may_order", "opening", "ordered"]


def opening(low: str) -> int:
    """How many characters of a clause only lead up to it: "please", "note:", "going forward"."""
    found = LED_UP.match(low)
    return found.end() if found else 0


def may_order(words: AbstractSet[str]) -> bool:
    """Whether a sentence of these words can order something that lasts."""
    return (
        not words.isdisjoint(HINTS)
        or not (words.isdisjoint(STYLE) or words.isdisjoint(FORM_HINTS))
        or not (words.isdisjoint(CONDITIONS) or words.isdisjoint(VERBS))
    )


_MAY_BE: Final = (VERBS - FOR_ONCE) | STAND_VERBS | KEPT_VERBS | OFTEN_VERBS


def may_follow(low: str) -> bool:
    """Whether the clause orders what is not done for once."""
    order = order_in(low)
    return order is not None and order.verb not in FOR_ONCE | _ASKED_ONCE


_ASKED_ONCE: Final = words(
    "confirm switch list authenticate verify transfer thank let leave look get"
)


def may_open(words: AbstractSet[str], low: str, sentence: tuple[int, int]) -> bool:
    """Whether a piece of the sentence may open with an order, or name a form without a verb."""
    start, end = sentence
    if end - start < _SHORT and names_form(words):
        return True
    if words.isdisjoint(_MAY_BE):
        return False
    return not _MAY_BE.isdisjoint(OPENING.findall(low, start, min(end, start + _SHORT)))


_SHORT: Final = 100
"""In characters: what is longer is no rule without a verb."""


def ordered(low: str) -> Kind | None:
    """What the clause orders to last, or ``None``."""
    if _lasting_by_itself(low):
        return Kind.COMMAND
    first = low[opening(low) :].partition(" ")[0]
    told = first in TELLERS and "," not in low and ": " not in low
    order = None if told else order_in(low)
    if order is None:
        return fragment(low)
    if order.negative:
        return _forbidden(order, low)
    if is_kept(order.verb, order.rest, low, led=bool(order.lead)):
        return Kind.COMMAND
    if _lasting(order, low):
        return Kind.FORMAT if order.verb in STYLE and FORMATS_SAID.search(low) else Kind.COMMAND
    return Kind.FORMAT if _shaped(order, low) else None


_DOING: Final = re.compile(r" [a-z]+ing\b(?! (?:me|about)\b)")
_DONE: Final = {
    "stop": _DOING,
    "quit": _DOING,
    "bother": _DOING,
    "give": re.compile(
        r" (?:me|us) (?!that"
        "|this|up\b|a )"
    ),
}


def _forbidden(order: Order, low: str) -> Kind | None:
    if order.verb in SOFT and not (
        order.verb in {"stop", "quit", "give", "let", "have", "hold"}
        and STANDING_SAID.search(order.rest)
    ):
        meant = _DONE.get(order.verb)
        return Kind.PROHIBITION if meant and meant.match(order.rest) else None
    if CHATTER_SAID.search(low) or (NEGATED_TAIL.match(order.rest) and not is_general(order)):
        return None
    if (
        order.lead
        and not is_general(order)
        and THIS_ONCE.search(order.lead)
        and not STANDING_SAID.search(low)
    ):
        return None
    return Kind.PROHIBITION


def _lasting(order: Order, low: str) -> bool:
    """Whether an order is for more than now."""
    return _is_lasting(order, low) and not CHATTER_SAID.search(low)


def _is_lasting(order: Order, low: str) -> bool:
    standing = STANDING_SAID.search(low)
    if standing and not EMBEDDED.search(low, 0, standing.start()):
        return True
    if (order.lead and is_general(order)) or _of_each(order):
        return True
    gates = "before" in low or "without" in low or " first" in low
    if gates and GATED.search(low) and not ANAPHOR.search(low[low.find("before") :]):
        return True
    return f"only {order.verb} " in low and not ONE_THING.search(low)


def _of_each(order: Order) -> bool:
    """Whether an order is of every thing of its kind, or of all that the agent says."""
    if ("every" in order.rest or "each" in order.rest) and EVERY.search(order.rest):
        return True
    return order.verb in STYLE and bool(WHEN_YOU.search(order.rest) or ALL.search(order.rest))


def _lasting_by_itself(low: str) -> bool:
    opened = OPENED.match(low)
    return bool(BY_ITSELF.match(low, opened.end() if opened else 0))


def _shaped(order: Order, low: str) -> bool:
    """Whether an order gives a form to keep to: a language, a length, a unit, a style."""
    if order.verb not in STYLE or order.verb in {"translate", "convert"}:
        return False
    if SHOWN.search(order.rest):
        return True
    shape = FORMATS_SAID.search(order.rest)
    if not shape or ONE_THING.search(order.rest):
        return False
    before = order.rest[: shape.start()]
    return not (order.verb in COMPOSED and ONE_MADE.search(before)) and "?" not in low
