"""What a unit is worth: the words, names and identifiers it would carry into the summary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from turnmill_worker.compaction.pool.factors import (
    field_factors,
    is_filling_slots,
    list_factors,
    routine_factors,
    slot_factors,
)
from turnmill_worker.compaction.pool.standing import standings
from turnmill_worker.compaction.pool.work_worth import DONE, ENDED
from turnmill_worker.reading.units import Line, Source, Unit
from turnmill_worker.reading.words import CAPS, CODE, NAME, NUMBER, WORD, Concept, concepts_of

VALUE: Final = "value"
KEY: Final = "key"

DECAY: Final = {
    WORD: 1.0, NAME: 0.6, CODE: 0.05, NUMBER: 0.1, CAPS: 0.1, VALUE: 0.1, KEY: 0.5, DONE: 1.0,
}  # fmt: skip
"""What a concept is still worth each time it is already kept. Words hold theirs: said of another
turn, the same word is another fact (`patterns` catch repeated sentences). An identifier is needed
once."""

_LONGEST_VALUE: Final = 60

_KNOWN: Final = 1 << 15
"""Texts that are remembered: those of a pool are appraised for every summary."""


_WORTH: Final = {
    WORD: 0.3, NAME: 6.0, CODE: 24.0, NUMBER: 10.0, CAPS: 20.0, VALUE: 2.0, KEY: 0.2, DONE: 60.0,
}  # fmt: skip
"""What concepts are worth against each other; none of these and the next matters much by itself."""

_RARITY_POWER: Final = 1.6
_NAME_RARITY: Final = 0.5
_SAID_BY_USER: Final = 1.0
_USED_IN_CALL: Final = 1.5
_REPEATED: Final = 0.3
_OLDEST: Final = 0.9
_NEWEST: Final = 1.1


@dataclass(frozen=True, slots=True)
class Worth:
    """Each unit's concepts, as positions in `weights` and `decays`, and its own multiplier."""

    by_unit: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    decays: tuple[float, ...]
    factors: tuple[float, ...]
    standings: tuple[float, ...]
    """The part of each multiplier that place and wording decide, which stays with the unit."""
    patterns: tuple[int, ...]
    """Units of one pattern differ in identifiers at most; -1 for what is too short to tell."""


_BY_USER: Final = 1
_IN_CALL: Final = 2
_OUTSIDE_RESULTS: Final = 4
_SEEN_IN: Final = {
    source: _BY_USER * (source is Source.USER)
    + _IN_CALL * (source is Source.CALL)
    + _OUTSIDE_RESULTS * (source is not Source.RESULT)
    for source in Source
}


class _Index:
    """Numbers concepts in the order they are met, and notes where: lists by that number."""

    def __init__(self) -> None:
        self.numbers: dict[Concept, int] = {}
        self.lines: list[int] = []
        self.last_at: list[float] = []
        self.seen_in: list[int] = []
        self._last_line: list[int] = []

    def note(self, found: Sequence[Concept], line: int, seen_in: int, at: float) -> tuple[int, ...]:
        """The numbers of one unit's concepts."""
        numbers, last_line = self.numbers, self._last_line
        noted = tuple([numbers.setdefault(concept, len(numbers)) for concept in found])
        for number in noted:
            if number == len(last_line):
                self.lines.append(1)
                self.last_at.append(at)
                self.seen_in.append(seen_in)
                last_line.append(line)
                continue
            if last_line[number] != line:
                last_line[number] = line
                self.lines[number] += 1
                self.seen_in[number] |= seen_in
            self.last_at[number] = at
        return noted

    def weights(self, lines: int) -> tuple[float, ...]:
        """What each concept is worth in that many lines."""
        words = {times: _weight_of_word(lines / times) for times in set(self.lines)}
        return tuple(
            [
                words[times]
                if kind == WORD
                else _weight(kind, math.log(1 + lines / times), times, seen_in, at)
                for (kind, _), times, seen_in, at in zip(
                    self.numbers, self.lines, self.seen_in, self.last_at, strict=True
                )
            ]
        )


def appraise(lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str]) -> Worth:
    """Weighs every concept by rarity and, for identifiers, by who used it, and how late."""
    index = _Index()
    by_unit: list[tuple[int, ...]] = []
    patterns: dict[tuple[str, ...], int] = {}
    pattern_of: list[int] = []
    total = sum(map(len, texts)) or 1
    passed = 0
    for unit, text in zip(units, texts, strict=True):
        passed += len(text)
        found, said = _read(unit.label, text, unit.body_at, done=unit.role in ENDED)
        seen_in = _SEEN_IN[lines[unit.line].source]
        by_unit.append(index.note(found, unit.line, seen_in, passed / total))
        pattern_of.append(patterns.setdefault(said, len(patterns)) if len(said) > 1 else -1)
    used = [seen_in >= _OUTSIDE_RESULTS for seen_in in index.seen_in]
    known = tuple(standings(lines, units))
    factors = [
        known,
        field_factors(lines, units, by_unit, used),
        list_factors(lines, units, by_unit, used),
    ]
    factors.append(routine_factors(units))
    if is_filling_slots(lines, units):
        factors.append(slot_factors(lines, units))
    return Worth(
        by_unit=tuple(by_unit),
        weights=index.weights(len(lines)),
        decays=tuple(DECAY[kind] for kind, _ in index.numbers),
        factors=tuple(map(math.prod, zip(*factors, strict=True))),
        standings=known,
        patterns=tuple(pattern_of),
    )


class _Reading(NamedTuple):
    """A unit's concepts, each once, and the words among them by which sentences are alike."""

    concepts: tuple[Concept, ...]
    words: tuple[str, ...]


@lru_cache(_KNOWN)
def _read(label: str, text: str, body_at: int, *, done: bool) -> _Reading:
    found = dict.fromkeys(_concepts(label, text, body_at, done=done))
    words = tuple(value for kind, value in found if kind == WORD) if not body_at else ()
    return _Reading(tuple(found), words)


def _concepts(label: str, text: str, body_at: int, *, done: bool) -> Iterator[Concept]:
    """The concepts of a unit's label, its key and its text."""
    if label:
        yield from concepts_of(label, prose=False)
    if done:
        yield (DONE, text)
    if not body_at:
        yield from concepts_of(text, prose=True)
        return
    yield (KEY, text[:body_at])
    body = text[body_at:]
    if " " in body and len(body) <= _LONGEST_VALUE:
        yield (VALUE, body.lower())
    yield from concepts_of(body, prose=False)


def _weight_of_word(share: float) -> float:
    return _WORTH[WORD] * math.pow(math.log(1 + share), _RARITY_POWER)


def _weight(kind: str, rarity: float, lines: int, seen_in: int, last_at: float) -> float:
    """What is no plain word weighs by itself, an identifier by who used it, and how late."""
    worth = _WORTH[kind]
    if kind == NAME:
        return worth + _NAME_RARITY * rarity
    if kind in {KEY, DONE}:
        return worth
    used = 1.0 + _SAID_BY_USER * bool(seen_in & _BY_USER) + _USED_IN_CALL * bool(seen_in & _IN_CALL)
    used += _REPEATED * math.log(lines)
    # Squared, so that age costs little until it is recent turns it is compared with.
    return worth * used * (_OLDEST + _NEWEST * last_at**2)
