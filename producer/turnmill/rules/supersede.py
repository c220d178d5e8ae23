"""Which earlier rules a new one repeats, replaces or ends; where that is in doubt, none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from turnmill.contract import rules as contract
from turnmill.rules.content import TOKEN, Content, content_of, plain, roots
from turnmill.rules.kinds import Kind, Rule, as_found
from turnmill.rules.retold import covers
from turnmill.rules.revised import may_revise, revises

__all__ = ["Relation", "ended", "relation", "stands"]


class Relation(StrEnum):
    """What a later rule does to an earlier one."""

    REPEATS = "repeats"
    REPLACES = "replaces"
    ENDS = "ends"
    REVISES = "revises"


_LIFTED = re.compile(
    r"\b(?:forget|ignore|disregard|scratch|drop|scrap|lift|remove|undo|strike|void|revoke|cancel)\b"
    r".{0,40}?\b(?:about|rules?|limits?|instructions?|restrictions?|preferences?"
    r"|ban|said|told|asked)\b"
    r"|\b(?:rule|limit|restriction|instruction|ban|preference"
    r"|policy)\b.{0,30}\b(?:no longer|lifted|gone|off|void|over"
    r"|does(?:n't| not) apply)|\bchanged my mind about\b"
)
_ALL = re.compile(
    r"\b(?:forget|ignore|disregard|drop|scrap) (?:everything|all(?: of)?(?: my|"
    r" the)?(?: earlier| previous)?"
    r" (?:rules|instructions|preferences|that))\b"
)
_NO_LONGER = re.compile(r"\b(?:i'm|i am|we're|we are|i|we) no longer\b(.*)|\bnot (.*) any ?more\b")
_AGAIN = re.compile(r"\byou (?:can|may|are allowed to)\b.*\b(?:again|now|after all|any ?time)\b")
_CHANGED = re.compile(
    r"\b(?:actually|instead|now|from now on|rather|after all|changed?|switch|again"
    r"|make (?:it|that)|correction)\b"
)
_NEWS = re.compile(
    r"\b(?:now|from now on|as of (?:now|today)|no longer|instead|actually|correction"
    r"|update[sd]?|changed|moved|postponed|pushed back|rescheduled|extended|raised|lowered|rotated"
    r"|retired|jetzt|ab (?:jetzt|sofort)|désormais|ahora)\b"
)
_NEW = re.compile(r"\b(?:new|neue[nrsm]?|nouve\w+|nuev[oa]s?) ((?:[\w-]+ ?){1,4})")
_THE_NEW = re.compile(r"\b(?:the|my|our|this|that) new ((?:[\w-]+ ?){1,4})")
# What replaces each other: amounts of money, dates, codes.
_VALUES: Final = (
    re.compile(r"[$€£] ?\d|\b(?:dollars?|euros?|pounds|usd|eur|gbp|bucks)\b"),
    re.compile(
        r"\d{4}-\d\d-\d\d|\b(?:january|february|march|april|may|june|july|august|september"
        r"|october|november|december|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
    ),
    re.compile(r"\b[^\W\d_]{2,}-?\d{2,}\b"),
)
# Two orders have two numbers: neither is the newer one of the other.
_IDENTIFIER = re.compile(r"#\w*\d{3,}|\b[a-z]{1,4}\d{4,}")
_BOUND = re.compile(r"\b(?:under|below|within|at most|up to|over|above|no more than|at least)\b")
# A second name to be called by. It ends no first one: another person may speak. With more behind
# it, as "in letters", or when to call, it is something else.
_ADDRESSED = re.compile(
    r"(?:^|\b(?:please|just|and|so|bitte|actually,?|instead,?) )"
    r"(?:(?:you (?:can|may|should) )?(?:call|address) me(?: as| by)?|nenn(?:e|t|en sie)? mich"
    r"|appelle[sz]?-moi|ll[áa]m[ae]n?me|chiamami|me cham[ea](?: de)?)"
    r" (?!(?:at|on|in|if|when|whenever|before|after|back|later|tomorrow|today|tonight|to|every|each"
    r"|daily|weekly|only|any|anytime|once|twice|as|by|never|first|from|during|until|formally|again"
    r"|informally|directly|immer|nie|nur|morgen|solo|siempre|mañana|demain|domani|sempre|nunca)\b)"
    r"[\w.'’-]+"
    r"(?: [\w.'’-]+){0,2}?"
    r"(?: (?:please|instead|now|from now on|from here on|going forward|bitte))?\W*$"
)
_ONE_WORD: Final = {
    "spend": "budget", "cost": "pric", "expens": "pric", "date": "deadlin", "dat": "deadlin",
    "due": "deadlin",
}  # fmt: skip
_NO_TOPIC: Final = frozenset(
    ("new", "updat", "quick", "mov", "cap", "ceil", "total", "hundr", "thousand", "million", "them")
)
_SHARED: Final = 2
"""Words that two rules have in common at least, if the one is to be news of the other."""

_TOLD: Final = 0.5
_NEAR: Final = 0.6
_DATE: Final = 2
"""A month and a day are one value."""


def ended(after: contract.Rule, earlier: Sequence[contract.Rule]) -> dict[int, Relation]:
    """What the new rule does to earlier ones, by position; those it leaves alone are not in it."""
    [new] = as_found([after])
    found = ((at, relation(new, old)) for at, old in enumerate(as_found(earlier)))
    return {at: known for at, known in found if known is not None}


def stands(rule: Rule) -> bool:
    """Whether a rule says anything beside what it takes back."""
    return not (rule.kind is Kind.REVOCATION and _LIFTED.search(plain(rule.text)))


def relation(new: Rule, old: Rule) -> Relation | None:
    """What one rule does to an older one, or ``None`` where they live side by side or in doubt."""
    text = plain(new.text)
    if _ALL.search(text):
        return Relation.ENDS
    this, that = content_of(text), content_of(plain(old.text))
    if not that.about and not that.slots:
        return None
    if _LIFTED.search(text):
        return Relation.ENDS if _names(this, that) else None
    if _takes_back(text, this, that):
        return Relation.ENDS
    if new.kind is Kind.REVOCATION:
        return None
    found = _against(text, old.text, this, that)
    # Most rules have nothing in common, and each is compared with all before it.
    if found is None and this.about & that.about:
        found = _retold(new, old)
    revised = found is None and (
        (may_revise(text, this, that) and revises(new, old)) or _renames(text, plain(old.text))
    )
    return Relation.REVISES if revised else found


def _renames(text: str, older: str) -> bool:
    """Whether two rules say what to call the user."""
    return bool(_ADDRESSED.search(text) and _ADDRESSED.search(older))


def _names(this: Content, that: Content) -> bool:
    """Whether what is taken back is named by words the older rule is made of."""
    named = this.about | set(this.slots.values()) | set(this.numbers)
    held = that.about | set(that.slots.values()) | set(that.numbers)
    return bool(named) and named <= held


def _takes_back(text: str, this: Content, that: Content) -> bool:
    """Whether the new rule ends the old: no longer this, no more of that, that again."""
    if _AGAIN.search(text):
        return that.negative and bool(this.whole) and this.whole == that.whole
    if found := _NO_LONGER.search(text):
        gone = content_of(found[1] or found[2] or "")
        return not that.negative and _names(gone, that)
    return not that.negative and bool(this.dropped) and bool(this.dropped <= that.whole)


def _against(text: str, older: str, this: Content, that: Content) -> Relation | None:
    """Two rules about the same thing: the same again, the opposite, or another value."""
    if _is_news(text, plain(older), this, that):
        return Relation.REPLACES
    if not _same(this.about, that.about):
        return None
    changed = {
        slot
        for slot in this.slots.keys() & that.slots.keys()
        if this.slots[slot] != that.slots[slot]
    }
    if this.negative != that.negative:
        whole = (
            this.about == that.about and this.slots == that.slots and this.numbers == that.numbers
        )
        return Relation.REPLACES if whole and this.whole else None
    if changed and not this.negative:
        whole = that.slots.keys() <= this.slots.keys()
        return Relation.REPLACES if whole else Relation.REVISES
    if this.numbers != that.numbers:
        named = _IDENTIFIER.findall(text) == _IDENTIFIER.findall(plain(older))
        one_value = len(this.numbers) == len(that.numbers) <= _DATE or bool(_CHANGED.search(text))
        one_value = one_value and named
        exact = this.about == that.about and bool(this.about)
        return Relation.REPLACES if exact and one_value and this.numbers and that.numbers else None
    return Relation.REPEATS if this._replace(dropped=that.dropped) == that and this.whole else None


def _retold(new: Rule, old: Rule) -> Relation | None:
    """The same in other words: the older stands unless it says less; so the prompt stays."""
    if covers(old, new):
        return Relation.REPEATS
    return Relation.REPLACES if covers(new, old) else None


def _is_news(text: str, older: str, this: Content, that: Content) -> bool:
    """Whether a rule says that it is new, and gives another value to what the older one is of."""
    if this.numbers == that.numbers or not any(
        value.search(text) and value.search(older) for value in _VALUES
    ):
        return False
    if this.negative != that.negative and not _BOUND.search(text):
        return False
    mine, theirs = _topic(this.about), _topic(that.about)
    shared = mine & theirs
    if (called := _called(_THE_NEW, text)) and len(called) >= _SHARED and called <= theirs:
        return True
    if len(shared) < max(_SHARED, _TOLD * min(len(mine), len(theirs))):
        return False
    called = _called(_NEW, text)
    return _NEWS.search(text) is not None or (
        called is not None and (not called or bool(called & shared))
    )


def _called(new: re.Pattern[str], text: str) -> frozenset[str] | None:
    """What a rule says is new; ``None`` where it says that of nothing."""
    found = new.search(text)
    return _topic(roots(TOKEN.findall(found[1]))) if found else None


def _topic(about: frozenset[str]) -> frozenset[str]:
    """What a rule is about, with one word for each thing that has several."""
    return frozenset(_ONE_WORD.get(root, root) for root in about) - _NO_TOPIC


def _same(this: frozenset[str], that: frozenset[str]) -> bool:
    """Whether two rules are about one thing: one says no more than the other, or nearly so."""
    if not this or not that:
        return this == that
    return len(this & that) / len(this | that) >= _NEAR
