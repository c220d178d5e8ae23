"""Whether an order is meant to be kept by what it orders, though no word says "always"."""

from __future__ import annotations

from typing import Final

from turnmill.rules.wording.lasting import (
    FOR_ONCE,
    KEPT,
    KEPT_VERBS,
    MANNER,
    NOTIFY,
    OF_ANY,
    OFTEN_VERBS,
    OPEN,
    POINTED,
    POINTING,
    RATHER,
    STAND_VERBS,
)
from turnmill.rules.wording.lexicon import words
from turnmill.rules.wording.phrases import CHATTER_SAID

__all__ = ["is_kept"]

_SHORTEST: Final = 3
"""In characters: what an order is of."""

_NOT_OPEN: Final = FOR_ONCE | words(
    "keep talk end start back call put cut guess switch leave"
    " double-check review finish price escalate begin"
    " head drop test exit stop name buy rest speak trust rate"
)


def is_kept(verb: str, rest: str, low: str, *, led: bool) -> bool:
    """Whether an order is of how something is to be, or of any one of a kind.

    Behind a condition, by which it is `led`, it has to be of such a kind.
    """
    if "?" in low:
        return False
    said = verb + rest
    often = verb in OFTEN_VERBS and OF_ANY.search(rest)
    kept = verb in KEPT_VERBS and KEPT.match(said)
    stands = verb in STAND_VERBS and len(rest) > _SHORTEST and not POINTED.match(rest)
    bare = not led and verb not in _NOT_OPEN and OPEN.match(rest)
    if RATHER.match(said):
        return True
    lasts = often or kept or bare or stands or MANNER.match(said) or NOTIFY.match(said)
    return bool(lasts) and not (POINTING.search(rest) or CHATTER_SAID.search(low))
