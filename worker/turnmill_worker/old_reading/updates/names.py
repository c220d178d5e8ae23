"""The names that sentences give: what something is called, where it is, and who does it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from turnmill_worker.old_reading.updates.claims import DATED, NEAR, Claim, Place, around, is_listing
from turnmill_worker.old_reading.updates.news import is_new, is_unreal
from turnmill_worker.old_reading.updates.subject import subject_of
from turnmill_worker.old_reading.updates.values import Value, values_of
from turnmill_worker.old_reading.updates.wording import (
    ADDS,
    DOES,
    DONE_BY,
    HYPOTHETICAL,
    IS,
    JOURNEY,
    LIGHT,
    MARKED,
    NAMED,
    NAMING,
    OPENING,
)

__all__ = ["names_of"]

_LINK: Final = 24
_BESIDE: Final = 12


def names_of(place: Place, text: str) -> Iterator[Claim]:
    """The names a sentence gives as what something is called, where it is, or who does it."""
    if is_listing(text):
        return
    for match in DOES.finditer(text):
        yield from _name(place, text, match, "name by", match[2])
    for match in NAMED.finditer(text):
        start = match.start(1)
        done_by = DONE_BY.search(text[max(0, start - _LINK) : start])
        if done_by:
            yield from _name(place, text, match, "name by", done_by[1])
        elif link := _link(text[max(0, start - _LINK) : start]):
            yield from _name(place, text, match, "name" if link in IS else f"name {link}")


def _name(
    place: Place, text: str, match: re.Match[str], kind: str, done: str = ""
) -> Iterator[Claim]:
    """The name as a claim, unless it is a date's, a journey's or marked; ``done``: what is done."""
    start, end = match.span(1)
    lead, rest = text[max(0, start - NEAR) : start], text[end:]
    dated = (value.kind in DATED for value in values_of(text[max(0, start - 1) : end + 3]))
    if MARKED.match(rest) or any(dated) or JOURNEY.search(lead):
        return
    if done and (is_unreal(lead) or HYPOTHETICAL.search(text[:end]) or ADDS.search(rest)):
        return
    value = Value(kind, match[1].lower(), match[1], start, end)
    verbs = done.lower().split()
    words = [one for one in around(text, value, [value]) if one.text.lower() not in verbs]
    subject = subject_of(words, start, end)
    new = OPENING.match(text) is not None or is_new(lead, rest[:_BESIDE], lead)
    new = new or done.startswith(("took", "handed"))
    yield Claim(place, value, subject, new)


def _link(lead: str) -> str:
    """What says, right before it, that a name is one; ``""`` if nothing does."""
    words = [word for word in lead.lower().split() if word not in LIGHT]
    last = words[-1] if words else ""
    return ":" if last.endswith(":") else last if last in NAMING else ""
