"""The values that people state in a conversation, each sentence read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates.claims import Claim, Place, claims_of
from turnmill_worker.old_reading.updates.names import names_of
from turnmill_worker.old_reading.updates.news import is_news
from turnmill_worker.old_reading.updates.values import SPELLED, has_signs
from turnmill_worker.old_reading.updates.wording import TELLING

__all__ = ["names_in", "stated_in", "values_in"]

_SHARED: Final = 2
"""So many words of some news an assistant's sentence needs to be worth a look."""

_KNOWN: Final = 1 << 14
"""Sentences of which it is remembered what they state: those of a pool are read again and again."""


def stated_in(parts: Sequence[Units]) -> list[Claim]:
    """What people state, in order; of the assistant, what some news may be about."""
    read = list(_placed(parts))
    stated = [claim for part in read for claim in part.stated()]
    news = {root[:4] for claim in stated if claim.new or claim.was for root in claim.subject.roots}
    renamed = any(claim.new and claim.value.kind.startswith("name") for claim in stated)
    for part in read:
        stated += part.about(news) if news else ()
        stated += part.named() if renamed else ()
    return sorted(stated, key=attrgetter("place.at"))


def _placed(parts: Sequence[Units]) -> Iterator[_Part]:
    """Each part with the positions at which its units and lines begin."""
    at = line = 0
    for part in parts:
        yield _Part(part, at, line)
        at += len(part.units)
        line += len(part.lines)


def values_in(text: str, before: str, place: Place) -> list[Claim]:
    """The values that a sentence states in its place, behind another."""
    # It states the same whoever says it, unless that is the assistant.
    source = Source.ASSISTANT if place.source is Source.ASSISTANT else Source.USER
    found = _values_in(text, "", source)
    # Only what leaves out what it is about is read by the sentence before it.
    if before and any(claim.elliptic for claim in found):
        found = _values_in(text, before, source)
    return [Claim(place, *claim[1:]) for claim in found]


@lru_cache(_KNOWN)
def _values_in(text: str, before: str, source: Source) -> tuple[Claim, ...]:
    return tuple(claims_of(Place(0, 0, source), text, before))


def names_in(text: str, place: Place) -> list[Claim]:
    """The names that a sentence gives in its place."""
    return [Claim(place, *claim[1:]) for claim in _names_in(text)]


@lru_cache(_KNOWN)
def _names_in(text: str) -> tuple[Claim, ...]:
    return tuple(names_of(Place(0, 0, Source.USER), text))


class _Signs(NamedTuple):
    """What may be found in a sentence: figures or addresses, these or values in words, news."""

    plain: bool
    values: bool
    news: bool


@lru_cache(_KNOWN)
def _signs(text: str) -> _Signs:
    words = [word[:4] for word in text.lower().split()]
    plain = has_signs(text)
    return _Signs(plain, plain or not SPELLED.isdisjoint(words), not TELLING.isdisjoint(words))


class _Part:
    """Units, with those that are only read if something is new noted."""

    def __init__(self, found: Units, at: int, line: int) -> None:
        self._found = found
        self._at = at
        self._line = line
        self._others: list[int] = []
        self._unnamed: list[int] = []

    def stated(self) -> Iterator[Claim]:
        """What all but the assistant state, and what the assistant says it has changed."""
        before, line_before = "", -1
        lines = self._found.lines
        for at, unit in enumerate(self._found.units):
            if unit.body_at:
                continue
            source = lines[unit.line].source
            if source is Source.RESULT or source is Source.CALL:
                continue
            signs = _signs(unit.text)
            if source is not Source.ASSISTANT:
                if signs.values:
                    yield from self._values_of(at, before if unit.line == line_before else "")
                if signs.news:
                    yield from self._names_of(at)
                else:
                    self._unnamed.append(at)
            elif signs.plain:
                if is_news(unit.text):
                    yield from self._values_of(at, before if unit.line == line_before else "")
                else:
                    self._others.append(at)
            before, line_before = unit.text, unit.line

    def about(self, news: set[str]) -> Iterator[Claim]:
        """What the assistant states in words that some news are told in."""
        for at in self._others:
            words = self._found.units[at].text.lower().split()
            if len(news.intersection([word[:4] for word in words])) >= _SHARED:
                yield from self._values_of(at, "")

    def named(self) -> Iterator[Claim]:
        """The names that people give where they do not say that they are new."""
        for at in self._unnamed:
            yield from self._names_of(at)

    def _values_of(self, at: int, before: str) -> list[Claim]:
        return values_in(self._found.units[at].text, before, self._place(at))

    def _names_of(self, at: int) -> list[Claim]:
        return names_in(self._found.units[at].text, self._place(at))

    def _place(self, at: int) -> Place:
        line = self._found.units[at].line
        return Place(self._at + at, self._line + line, self._found.lines[line].source)
