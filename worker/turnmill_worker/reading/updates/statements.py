"""The values that people state in a conversation, each sentence read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from turnmill_worker.reading.units import Source, Units
from turnmill_worker.reading.updates.claims import Claim, Place, claims_of, names_of
from turnmill_worker.reading.updates.news import is_news
from turnmill_worker.reading.updates.values import SPELLED, has_digits
from turnmill_worker.reading.updates.wording import TELLING

__all__ = ["stated_in"]

_SHARED: Final = 2
"""So many words of some news an assistant's sentence needs to be worth a look."""


def stated_in(parts: Sequence[Units]) -> list[Claim]:
    """What people state, in order; of the assistant, what some news may be about."""
    read = [_Part(part) for part in parts]
    stated = [
        claim for part, at, line in _placed(read) for claim in _moved(part.stated(), at, line)
    ]
    news = {root[:4] for claim in stated if claim.new or claim.was for root in claim.subject.roots}
    renamed = any(claim.new and claim.value.kind.startswith("name") for claim in stated)
    for part, at, line in _placed(read):
        stated += _moved(part.about(news), at, line) if news else ()
        stated += _moved(part.named(), at, line) if renamed else ()
    return sorted(stated, key=attrgetter("place.at"))


def _placed(read: Sequence[_Part]) -> Iterator[tuple[_Part, int, int]]:
    """Each part with the positions at which its units and lines begin."""
    at = line = 0
    for part in read:
        yield part, at, line
        at += len(part.found.units)
        line += len(part.found.lines)


def _moved(claims: Iterable[Claim], at: int, line: int) -> Iterator[Claim]:
    for claim in claims:
        own = claim.place
        place = Place(own.at + at, own.line + line, own.source)
        yield replace(claim, place=place) if at else claim


class _Part:
    """Units, of which what they state is found once and noted."""

    def __init__(self, found: Units) -> None:
        self.found = found
        self._others: list[Place] = []
        self._unnamed: list[Place] = []

    def stated(self) -> Iterator[Claim]:
        """What all but the assistant state, and what the assistant says it has changed."""
        before, line_before = "", -1
        for at, unit in enumerate(self.found.units):
            if unit.body_at:
                continue
            source = self.found.lines[unit.line].source
            if source is Source.RESULT or source is Source.CALL:
                continue
            place = Place(at, unit.line, source)
            if source is not Source.ASSISTANT:
                words = [word[:4] for word in unit.text.lower().split()]
                if has_digits(unit.text) or not SPELLED.isdisjoint(words):
                    yield from self._of(place, before if unit.line == line_before else "")
                if TELLING.isdisjoint(words):
                    self._unnamed.append(place)
                else:
                    yield from self._names_of(place)
            elif has_digits(unit.text):
                if is_news(unit.text):
                    yield from self._of(place, before if unit.line == line_before else "")
                else:
                    self._others.append(place)
            before, line_before = unit.text, unit.line

    def about(self, news: set[str]) -> Iterator[Claim]:
        """What the assistant states in words that some news are told in."""
        for place in self._others:
            words = self.found.units[place.at].text.lower().split()
            if len(news.intersection([word[:4] for word in words])) >= _SHARED:
                yield from self._of(place, "")

    def named(self) -> Iterator[Claim]:
        """The names that people give where they do not say that they are new."""
        for place in self._unnamed:
            yield from self._names_of(place)

    def _of(self, place: Place, before: str) -> Sequence[Claim]:
        known: tuple[Claim, ...] | None = self.found.stated.get(place.at)
        if known is None:
            text = self.found.units[place.at].text
            known = self.found.stated[place.at] = tuple(claims_of(place, text, before))
        return known

    def _names_of(self, place: Place) -> Sequence[Claim]:
        known: tuple[Claim, ...] | None = self.found.stated.get(~place.at)
        if known is None:
            text = self.found.units[place.at].text
            known = self.found.stated[~place.at] = tuple(names_of(place, text))
        return known
