"""English words that say little by themselves, and the root of a word."""

from __future__ import annotations

from typing import Final

from turnmill.rules.wording.lexicon import words

__all__ = ["MEANT", "PAST", "STOP", "stem"]

STOP: Final = words(
    "a about after again all also am an and any are as at be because been before being both but by "
    "can could did do does doing down during each few for from further get got had has have having "
    "he her here hers him himself his how i if in into is it its itself just let me more most my "
    "myself no nor not now of off on once only or other our ours out over own same she should so "
    "some such than that the their theirs them then there these they this those through to too "
    "under until up very was we were what when where which while who whom why will with would yes "
    "you your yours i'm i've i'd i'll it's that's there's what's let's don't didn't doesn't can't "
    "isn't wasn't won't couldn't we're we've we'll you're you've you'll they're they've he's she's "
    "aren't weren't haven't hasn't really oh hey hi hello wow yeah okay ok please thanks thank "
    "sure "
    "great good nice cool awesome glad hope true false null none"
)

# A sentence with one of these tells of what has been.
PAST: Final = words(
    "was were had did didn't wasn't weren't hadn't couldn't got"
    " went said told came saw took made thought felt"
    " found gave bought ate met heard knew ago yesterday wanted"
    " loved asked happened started tried decided"
)

# What people mean who leave out the apostrophe.
MEANT: Final = {
    word.replace("'", ""): word
    for word in words(
        "don't can't won't doesn't didn't isn't aren't mustn't shouldn't needn't wouldn't i'm i've"
        " you're they're we've let's that's"
    )
} | {"pls": "please", "plz": "please", "u": "you", "ur": "your", "dont't": "don't"}

_SUFFIXES: Final = ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_SHORTEST_ROOT: Final = 3


def stem(word: str) -> str:
    """The word without its commonest English endings; rough, and only compared with itself."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_ROOT:
            root = word[: -len(suffix)]
            return f"{root}y" if suffix in {"ies", "ied"} else root.removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_ROOT else word
