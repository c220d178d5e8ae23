"""Whether two rules lay down the same in other words, and which of them is to stand."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from turnmill.rules.content import TOKEN, content_of, plain, roots
from turnmill.rules.find import find_rules
from turnmill.rules.kinds import Kind, Rule
from turnmill.rules.wording.lexicon import words
from turnmill.rules.wording.slots import TEMPORAL

__all__ = ["covers"]

# A purpose or a reason stands beside what is laid down: "short, so that I can read it".
_PARTS = re.compile(
    r",? (?:in order to|so that|because|since|given that|considering|as (?:i|we|you)\b|which|where"
    r"|to(?= [a-z]+ (?:the|my|our|your|a|an|it|that|full)\b)|trying to|want to|like to)\s"
    r"|, (?:so|and)\s(?=(?:i|we|please|always|never|don't)\b)|[;()]"
)
_BOUNDED = re.compile(
    r"\b(?:keep\w*|limit\w*|cap|capped|capping|stay\w*|restrict\w*|remain|hold|spend|have|has|is"
    r"|are|was|set|need|want|meet)\b"
)
_FOR = re.compile(r" ?(?:for|of|in|on|to) ((?:[\w'-]+ ?){1,5})")
_OF_ITSELF: Final = words(
    "siz total length duration number amount count valu work item try decid goal aim ensur sak"
    " attempt plan hop made trade-off trade mak"
)
_LEAST: Final = 2
_SAME: Final = 0.8
_NEAR: Final = 4
"""In words: where it is said of what an amount is."""

_APART: Final = 2
"""In characters: the parts of one value, as in "May 5, 2026"."""

_FEW: Final = 3
"""So many words beside the bound may be lost."""


def covers(this: Rule, that: Rule) -> bool:
    """Whether a rule says all that another one lays down, so that the other need not stand."""
    mine, theirs = content_of(plain(this.text)), content_of(plain(that.text))
    if not theirs.slots.items() <= mine.slots.items():
        return False
    if this.kind is that.kind and this.kind in {Kind.LIMIT, Kind.DEADLINE}:
        return _same_bound(this, that)
    if (mine.negative, mine.terms) != (theirs.negative, theirs.terms):
        return False
    return set(mine.numbers) >= set(theirs.numbers) and _says_all(
        _parts(plain(this.text)), _parts(plain(that.text))
    )


def _says_all(mine: tuple[frozenset[str], ...], theirs: tuple[frozenset[str], ...]) -> bool:
    """Whether each part of the other has one here that says the same, no less and no more."""
    return sum(map(len, theirs)) >= _LEAST and all(
        any(len(part & each) >= _SAME * len(part | each) for each in mine) for part in theirs
    )


def _same_bound(this: Rule, that: Rule) -> bool:
    """Whether both bound the same by the same value, and the other lays down nothing more."""
    mine, theirs = _bound(plain(this.text)), _bound(plain(that.text))
    return (
        bool(theirs.of)
        and mine.negative == theirs.negative
        and theirs.of <= mine.of
        and len(theirs.said - mine.said) <= _FEW
        and all(one == other for one, other in zip(mine.value, theirs.value, strict=False))
        and not _lays_down(that.text[: theirs.start] + that.text[theirs.end :])
    )


@lru_cache(maxsize=1024)
def _lays_down(text: str) -> bool:
    return bool(find_rules(text))


class _Bound(NamedTuple):
    """A value, what it bounds, and where that is said.

    Attributes:
        value: its numbers and names of times, as they follow each other.
        of: roots of what it is a bound of.
        said: roots of all that is said there.
        negative: whether it is forbidden rather than kept to, and its terms.
        start: where that begins.
        end: where it ends.
    """

    value: tuple[str, ...]
    of: frozenset[str]
    said: frozenset[str]
    negative: tuple[bool, tuple[bool, bool]]
    start: int
    end: int


@lru_cache(maxsize=1024)
def _bound(text: str) -> _Bound:
    """The first value that a plain text bounds something by."""
    value: list[str] = []
    first = last = 0
    for found in TOKEN.finditer(text):
        if value and found.start() - last > _APART:
            break
        if found[0] in TEMPORAL or any(map(str.isdigit, found[0])):
            first = first if value else found.start()
            value.append(found[0].rstrip(".,:;/-"))
            last = found.start() + len(value[-1])
    if not value:
        return _Bound((), frozenset(), frozenset(), (False, (False, False)), 0, len(text))
    begun = max(text.rfind(mark, 0, first) for mark in ",;:") + 1
    for verb in _BOUNDED.finditer(text, begun, first):
        if _of(text, verb.end(), first):
            begun = verb.end()
    of = _of(text, begun, first)
    if behind := _FOR.match(text, last):
        of |= roots(TOKEN.findall(behind[1])) - _OF_ITSELF
    end = text.find(",", last)
    end = len(text) if end < 0 else end
    part = text[begun:end]
    said = content_of(part)
    negative = (said.negative, said.terms)
    return _Bound(tuple(value), of, roots(TOKEN.findall(part)) - _OF_ITSELF, negative, begun, end)


def _of(text: str, start: int, end: int) -> frozenset[str]:
    """What the last words there are about."""
    said = [roots((found[0],)) - _OF_ITSELF for found in TOKEN.finditer(text, start, end)]
    return frozenset[str]().union(*[each for each in said if each][-_NEAR:])


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[frozenset[str], ...]:
    """What each part of a plain text is about."""
    return tuple(about for part in _PARTS.split(text) if (about := content_of(part).whole))
