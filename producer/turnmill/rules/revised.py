"""Whether a rule says otherwise than a part of an older one, while the rest of that holds on."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from turnmill.rules.content import Content, content_of, plain
from turnmill.rules.kinds import Kind, Rule
from turnmill.rules.wording.lexicon import words
from turnmill.rules.wording.slots import SLOTS

__all__ = ["may_revise", "revises"]

_PARTS = re.compile(r"[,;:]\s|\b(?:and|but|with|while)\b")
_RATHER = re.compile(r"\b(?:rather|instead|after all|actually)\b")
# How an answer is to sound: "short, formal replies".
_MANNERS: Final = "|".join(sorted(word for word, row in SLOTS.items() if row in {"length", "tone"}))
_SOUNDS = re.compile(
    rf"\b((?:(?:{_MANNERS})(?:, | and | )(?:and )?)+)"
    r"(answers?|replies|reply|responses?|messages?|e?mails?|explanations?|summaries|texts?)\b"
)
_OF_ALL = re.compile(r"\b(?:all|every|each|any|always|everything)\b")
_FORMS: Final = words("language units temperature currency zone clock spelling")
_ANSWERS: Final = words("answer answers reply replies response responses")


def may_revise(text: str, this: Content, that: Content) -> bool:
    """Whether a plain rule of this content is worth a look beside an older one; cheap."""
    if not this.slots or not that.slots:
        return False
    return not this.slots.keys().isdisjoint(that.slots) or _RATHER.search(text) is not None


def revises(new: Rule, old: Rule) -> bool:
    """Whether the newer of two rules takes back a part of the older one."""
    this, that = plain(new.text), plain(old.text)
    if _sounds_otherwise(this, that) or (new.kind is Kind.FORMAT and _is_exception(this, that)):
        return True
    return any(_excludes(mine, theirs) for mine in _parts(this) for theirs in _parts(that))


def _is_exception(new: str, old: str) -> bool:
    """Whether the older one is of all there is, and the newer one gives some of it another form."""
    this, that = content_of(new), content_of(old)
    if not _OF_ALL.search(old) or this.negative or that.negative or this.numbers:
        return False
    return any(
        this.slots[row] != that.slots[row] and row in _FORMS
        for row in this.slots.keys() & that.slots.keys()
    )


def _excludes(this: Content, that: Content) -> bool:
    """Whether two parts give one thing values that exclude each other."""
    if not this.about or not that.about or this.negative or that.negative:
        return False
    rows = this.slots.keys() & that.slots.keys()
    if not any(this.slots[row] != that.slots[row] for row in rows):
        return False
    return this.about <= that.about or that.about <= this.about


def _sounds_otherwise(new: str, old: str) -> bool:
    """Whether the newer one would rather have what the older one speaks of sound another way."""
    if not _RATHER.search(new):
        return False
    this, that = _SOUNDS.search(new), _SOUNDS.search(old)
    if this is None or that is None or this[1] == that[1]:
        return False
    return this[2] == that[2] or {this[2], that[2]} <= _ANSWERS


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[Content, ...]:
    """The parts of a rule that have values of which there can be one."""
    found = map(content_of, _PARTS.split(text))
    return tuple(part for part in found if part.slots)
