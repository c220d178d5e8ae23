"""Rules without a verb: "No emojis", "Metric units", "YAML, not JSON"."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.forms import (
    AT_TIMES,
    CONTRAST,
    FORM_NAMED,
    FRAGMENT_CUES,
    NOTHING_SO,
    OF_EACH,
)
from turnmill.rules.wording.lexicon import NO_NOUN, words, words_of
from turnmill.rules.wording.phrases import (
    ENDS_ONLY,
    NO_FRAGMENT,
    NOTHING,
    ONLY_FRAGMENT,
    PER,
    TOLD,
)
from turnmill.rules.wording.things import GENERIC

__all__ = ["fragment", "names_form"]

_LONGEST: Final = 16
"""In spaces."""

_FEW: Final = 5
"""In words: where a form is named, if it is."""

_FORM_WORDS: Final = frozenset(words_of(GENERIC).split()) | words(
    "units spelling tense person voice tone case clock notation"
    " language english wording measurements"
    " instead rather over before mondays tuesdays wednesdays"
    " thursdays fridays saturdays sundays weekends weekdays"
    " night nights overnight"
)


def names_form(said: AbstractSet[str]) -> bool:
    """Whether one of these words may be what a form is named of."""
    return not said.isdisjoint(_FORM_WORDS)


def fragment(low: str) -> Kind | None:
    """A rule without a verb: "No emojis", "Only window seats", "Vegetarian food only"."""
    if low.count(" ") > _LONGEST or low.endswith("?"):
        return None
    no = NO_FRAGMENT.fullmatch(low)
    if no and no[1] not in NO_NOUN and not TOLD.search(no[2]):
        return Kind.PROHIBITION
    if NOTHING.match(low):
        return Kind.PROHIBITION
    formed = not _FORM_WORDS.isdisjoint(low.split(None, _FEW)[:_FEW])
    if (formed and FORM_NAMED.match(low)) or (FRAGMENT_CUES.search(low) and _is_form(low)):
        return Kind.FORMAT
    if NOTHING_SO.match(low):
        return Kind.PROHIBITION
    only = ONLY_FRAGMENT.match(low) or ("only" in low and ENDS_ONLY.match(low))
    return Kind.COMMAND if (only and not TOLD.search(low)) or (formed and PER.match(low)) else None


def _is_form(low: str) -> bool:
    return bool(CONTRAST.fullmatch(low) or AT_TIMES.fullmatch(low) or OF_EACH.match(low))
