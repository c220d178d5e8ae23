"""Whether a clause orders something that lasts: a command, a prohibition, a form to keep to."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import NO_NOUN, SOFT, STYLE, VERBS
from turnmill.rules.wording.phrases import (
    AGREED,
    ALL,
    ANAPHOR,
    BY_ITSELF,
    CHATTER_SAID,
    COMPOSED,
    CONDITIONS,
    DOUBT,
    EMBEDDED,
    ENDS_ONLY,
    EVERY,
    FORM_HINTS,
    FORMATS_SAID,
    GATED,
    GENERIC_IF,
    GENERIC_WHEN,
    HINTS,
    IMPERATIVE,
    MINE,
    NEGATED_TAIL,
    NO_FRAGMENT,
    NOTHING,
    ONE_MADE,
    ONE_THING,
    ONLY_FRAGMENT,
    OPENED,
    PER,
    SHOWN,
    STANDING_SAID,
    TELL,
    TELLERS,
    TELLING,
    THIS_ONCE,
    TO_YOU,
    TOLD,
    WHEN_YOU,
)

__all__ = ["may_order", "opening", "ordered"]


class _Order(NamedTuple):
    """A clause in the imperative: what stands before the verb, the verb, what follows it."""

    lead: str
    verb: str
    rest: str
    negative: bool


_LONGEST_FRAGMENT: Final = 16
_SHORTEST_TOLD: Final = 3
_LONGEST_TOLD: Final = 60
"""In characters: what is told before a colon and a prohibition."""

_MOST_COMMAS: Final = 6


def opening(low: str) -> int:
    """How many characters of a clause only lead up to it: "please", "note:", "and also"."""
    found = OPENED.match(low)
    return found.end() if found else 0


def may_order(words: AbstractSet[str]) -> bool:
    """Whether a sentence of these words can order something that lasts."""
    return (
        not words.isdisjoint(HINTS)
        or not (words.isdisjoint(STYLE) or words.isdisjoint(FORM_HINTS))
        or not (words.isdisjoint(CONDITIONS) or words.isdisjoint(VERBS))
    )


def ordered(low: str) -> Kind | None:
    """What the clause orders to last, or ``None``."""
    if _lasting_by_itself(low):
        return Kind.COMMAND
    first = low[opening(low) :].partition(" ")[0]
    told = first in TELLERS and "," not in low and ": " not in low
    order = None if told else _order(low)
    if order is None:
        return _fragment(low)
    if order.negative:
        return _forbidden(order, low)
    if _lasting(order, low):
        return Kind.FORMAT if order.verb in STYLE and FORMATS_SAID.search(low) else Kind.COMMAND
    return Kind.FORMAT if _shaped(order, low) else None


def _order(low: str) -> _Order | None:
    """The clause as an order: at once, or behind a condition and a comma."""
    if found := _parsed(low, ""):
        return found
    opened = OPENED.match(low)
    told, colon, behind = low.partition(": ")
    if (
        colon
        and _SHORTEST_TOLD < len(told) <= _LONGEST_TOLD
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


def _parsed(low: str, lead: str) -> _Order | None:
    found = IMPERATIVE.match(low)
    if not found:
        return None
    verb, negative = found["verb"], found["not"] or ""
    if negative.startswith(("avoid", "refrain", "stop", "quit")):
        return _Order(lead, negative.split()[0], f" {verb}{found['rest']}", negative=True)
    if not lead and negative.startswith("do") and verb.isalpha() and verb not in TELLERS:
        return _Order(lead, verb, found["rest"], negative=True)
    if verb not in VERBS or found["rest"][:1].strip(" ,.!:_\n"):
        return None
    if not lead and found["rest"][:1] in {",", "."} and not negative:
        return None
    return _Order(lead, verb, found["rest"], negative=bool(negative))


def _forbidden(order: _Order, low: str) -> Kind | None:
    if order.verb in SOFT and not (
        order.verb in {"stop", "quit", "give", "let", "have", "hold"}
        and STANDING_SAID.search(order.rest)
    ):
        return (
            Kind.PROHIBITION
            if order.verb in {"stop", "quit"} and re.match(r" [a-z]+ing\b", order.rest)
            else None
        )
    if CHATTER_SAID.search(low) or (NEGATED_TAIL.match(order.rest) and not _generic(order)):
        return None
    if (
        order.lead
        and not _generic(order)
        and THIS_ONCE.search(order.lead)
        and not STANDING_SAID.search(low)
    ):
        return None
    return Kind.PROHIBITION


def _lasting(order: _Order, low: str) -> bool:
    """Whether an order is for more than now."""
    if CHATTER_SAID.search(low):
        return False
    standing = STANDING_SAID.search(low)
    if standing and not EMBEDDED.search(low, 0, standing.start()):
        return True
    if (order.lead and _generic(order)) or _of_each(order):
        return True
    if GATED.search(low) and not ANAPHOR.search(low[low.find("before") :]):
        return True
    return bool(re.match(rf"(?:.*\b)?only {order.verb}\b", low)) and not ONE_THING.search(low)


def _of_each(order: _Order) -> bool:
    """Whether an order is of every thing of its kind, or of all that the agent says."""
    if EVERY.search(order.rest):
        return True
    return order.verb in STYLE and bool(WHEN_YOU.search(order.rest) or ALL.search(order.rest))


def _generic(order: _Order) -> bool:
    """Whether the condition before an order can come true again and again."""
    if DOUBT.match(order.lead):
        return True
    if re.match(r"(?:and |but |so |also |please )*if\b", order.lead):
        return bool(GENERIC_IF.match(order.lead)) and not TELL.match(order.verb)
    return (
        bool(GENERIC_WHEN.match(order.lead))
        and not (THIS_ONCE.search(order.lead) or TELL.match(order.verb))
        and bool(
            re.search(
                r"\b(?:you|i|we|a|an|any|every|each|anything|someone|something)\b", order.lead
            )
        )
    )


def _lasting_by_itself(low: str) -> bool:
    return bool(BY_ITSELF.match(OPENED.sub("", low, count=1)))


def _shaped(order: _Order, low: str) -> bool:
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


def _fragment(low: str) -> Kind | None:
    """A rule without a verb: "No emojis", "Only window seats", "Vegetarian food only"."""
    if low.count(" ") > _LONGEST_FRAGMENT or low.endswith("?"):
        return None
    no = NO_FRAGMENT.fullmatch(low)
    if no and no[1] not in NO_NOUN and not TOLD.search(no[2]):
        return Kind.PROHIBITION
    if NOTHING.match(low):
        return Kind.PROHIBITION
    only = ONLY_FRAGMENT.match(low) or ENDS_ONLY.match(low)
    return Kind.COMMAND if (only and not TOLD.search(low)) or PER.match(low) else None
