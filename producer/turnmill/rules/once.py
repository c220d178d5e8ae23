"""Whether what sounds like a rule is meant for once: one act that is allowed, a choice for now."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from turnmill.rules.kinds import Kind, Rule
from turnmill.rules.wording.lexicon import words
from turnmill.rules.wording.phrases import STANDING_SAID
from turnmill.rules.wording.refusals import CHOICE
from turnmill.rules.wording.slots import SLOTS, TEMPORAL
from turnmill.rules.wording.things import GENERIC

__all__ = ["is_choice", "is_one_act"]

_GRANTED = re.compile(
    r"\b(?:authori[sz]e|consent|permit|allow|permission|grant you|you(?:'re| are)? (?:can|may)"
    r"|(?:ok|okay|fine|alright|all right|cool)(?= (?:with|to|if|for))|(?:need|have) to)\b"
)
_WHAT = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|[^\w\s]*\d\w*")
_FAR: Final = 7
"""In words: where it must have been said what is allowed."""

_PASSED_OVER: Final = words("you your to for with if hereby also now then please me go ahead and")
_ONE: Final = words("the this that these those it them its both a an one")
_MANY: Final = words("any anything anyone each every all my our us mine always whenever")
_LASTS: Final = words(
    "use access read see view contact call email text message phone share edit open keep run ask"
    " remind work speak drive smoke"
)
_ACTS: Final = words(
    "proceed continue submit submission finalize finalise complete confirm confirmation process"
    " cancel cancellation refund return exchange release transfer charge payment book booking"
    " place order delete deletion do start begin send"
)


def is_one_act(kind: Kind, low: str) -> bool:
    """Whether a permission is for one act: "you may cancel it"; its clause is in lower case."""
    if kind is not Kind.PERMISSION or STANDING_SAID.search(low):
        return False
    granted = None
    for found in _GRANTED.finditer(low):
        granted = found
    return granted is not None and _is_of_one(low, granted.end())


def _is_of_one(low: str, at: int) -> bool:
    """Whether what is said there is to be done to one thing, or is to be gone on with."""
    acts = named = False
    said = (found[0] for found in _WHAT.finditer(low, at))
    for word in islice(said, _FAR):
        if word in _PASSED_OVER:
            continue
        named = True
        if word in _ONE or word[-1].isdigit() or not word[0].isalpha():
            return True
        if word in _MANY or word in _LASTS or word.endswith("ing"):
            return False
        if word in _ACTS:
            acts = True
        elif word.endswith("s") and not word.endswith("ss"):
            return False
    return acts or not named


def is_choice(rule: Rule) -> bool:
    """Whether it only answers a choice or wishes something for now.

    Then it is no rule unless it ends one.
    """
    if rule.kind is not Kind.PREFERENCE:
        return False
    said = " ".join(rule.text.lower().replace("\u2019", "'").split())
    if _NOW.search(said):
        return True
    if _LASTING.search(said) or STANDING_SAID.search(said):
        return False
    return bool(_CHOICE.fullmatch(said)) or _is_for_now(said)


def _is_for_now(said: str) -> bool:
    """Whether a wish is of something at hand: "I'd rather not read that number out"."""
    if found := _WISHED.search(said):
        return any(map(_is_at_hand, _AT_HAND.finditer(said[found.end() :])))
    return bool(_ITSELF.search(said))


def _is_at_hand(the: re.Match[str]) -> bool:
    return the["what"] is None or (the["what"] not in SLOTS and the["what"] not in _IN_GENERAL)


_NOW = re.compile(
    r"\b(?:this time|for now|just this once|in this case|for this (?:one|trip|order))\b"
    r"|\b(?:prefer|rather (?:have|take)) (?:the|this|that) (?:first|second|third|last|latter"
    r"|former|other)\b"
)
_CHOICE = re.compile(CHOICE)
_WISHED = re.compile(
    r"\b(?:i|we)(?:'d| would) (?:[a-z]+ )?(?:prefer|rather)\b(?! (?:that )?you\b)"
    r"|\binsist on (?:having|getting)\b"
)
_AT_HAND = re.compile(
    r"\b(?:here|it|them|this|these|those|the (?P<what>[a-z-]+))\b|^(?: not)?(?: to)? [a-z]+ that\b"
)
_ITSELF = re.compile(
    r"\bprefer (?:not )?(?:to )?[a-z]+ (?:it|them|this|that)\b|\bprefer to (?:see|know|hear) how\b"
)
# What is compared with something else, or said of all there will be, is no choice for now.
_LASTING = re.compile(
    r"\b(?:don't|do not|than|over|instead|unless|when|if you|any|every|each|all|never|short"
    r"|brief|simple"
    rf"|{GENERIC})\b"
)
_IN_GENERAL: Final = TEMPORAL | words(
    "mornings evenings day week month year phone internet office web road floor"
)
