"""What a unit is worth: the words, names and identifiers it would carry into the summary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turnmill_worker.compaction.pool.factors import (
    field_factors,
    is_filling_slots,
    list_factors,
    routine_factors,
    slot_factors,
)
from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.compaction.pool.work_worth import DONE, ENDED
from turnmill_worker.reading.units import Line, Source, Unit
from turnmill_worker.reading.words import CAPS, CODE, NAME, NUMBER, WORD, Concept, Reader

VALUE: Final = "value"
KEY: Final = "key"

DECAY: Final = {
    WORD: 1.0, NAME: 0.6, CODE: 0.05, NUMBER: 0.1, CAPS: 0.1, VALUE: 0.1, KEY: 0.5, DONE: 1.0,
}  # fmt: skip
"""What a concept is still worth each time it is already kept. Words hold theirs: said of another
turn, the same word is another fact (`patterns` catch repeated sentences). An identifier is needed
once."""

_LONGEST_VALUE: Final = 60


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


@dataclass(slots=True)
class _Sightings:
    """Where one concept was met."""

    lines: int = 0
    last_line: int = -1
    last_at: float = 0.0
    by_user: bool = False
    in_call: bool = False
    outside_results: bool = False


class _Index:
    """Numbers concepts in the order they are met, and notes where."""

    def __init__(self) -> None:
        self.numbers: dict[Concept, int] = {}
        self.sightings: list[_Sightings] = []

    def note(self, found: Sequence[Concept], unit: Unit, source: Source, at: float) -> list[int]:
        noted: list[int] = []
        for concept in found:
            number = self.numbers.setdefault(concept, len(self.sightings))
            noted.append(number)
            if number == len(self.sightings):
                self.sightings.append(_Sightings())
            seen = self.sightings[number]
            if seen.last_line != unit.line:
                seen.last_line = unit.line
                seen.lines += 1
                seen.by_user = seen.by_user or source is Source.USER
                seen.in_call = seen.in_call or source is Source.CALL
                seen.outside_results = seen.outside_results or source is not Source.RESULT
            seen.last_at = at
        return noted


def appraise(lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str]) -> Worth:
    """Weighs every concept by rarity and, for identifiers, by who used it, and how late."""
    index = _Index()
    reader = Reader()
    by_unit: list[tuple[int, ...]] = []
    patterns: dict[tuple[str, ...], int] = {}
    pattern_of: list[int] = []
    total = sum(map(len, texts)) or 1
    passed = 0
    for unit, text in zip(units, texts, strict=True):
        passed += len(text)
        found = list(dict.fromkeys(_concepts(reader, unit, text)))
        by_unit.append(tuple(index.note(found, unit, lines[unit.line].source, passed / total)))
        said = tuple(value for kind, value in found if kind == WORD) if unit.is_prose else ()
        pattern_of.append(patterns.setdefault(said, len(patterns)) if len(said) > 1 else -1)
    weights = tuple(
        _weight(kind, seen, len(lines))
        for (kind, _), seen in zip(index.numbers, index.sightings, strict=True)
    )
    used = [seen.outside_results for seen in index.sightings]
    standings = tuple(
        unit.standing or standing
        for unit, standing in zip(units, first_standings(lines, units), strict=True)
    )
    factors = [
        standings,
        field_factors(lines, units, by_unit, used),
        list_factors(lines, units, by_unit, used),
    ]
    factors.append(routine_factors(units))
    if is_filling_slots(lines, units):
        factors.append(slot_factors(lines, units))
    return Worth(
        by_unit=tuple(by_unit),
        weights=weights,
        decays=tuple(DECAY[kind] for kind, _ in index.numbers),
        factors=tuple(map(math.prod, zip(*factors, strict=True))),
        standings=standings,
        patterns=tuple(pattern_of),
    )


def _concepts(reader: Reader, unit: Unit, text: str) -> Iterator[Concept]:
    """The concepts of a unit's label, its key and its text."""
    if unit.label:
        yield from reader.read(unit.label, prose=False)
    if unit.role in ENDED:
        yield (DONE, text)
    if not unit.body_at:
        yield from reader.read(text, prose=True)
        return
    yield (KEY, text[: unit.body_at])
    body = text[unit.body_at :]
    if " " in body and len(body) <= _LONGEST_VALUE:
        yield (VALUE, body.lower())
    yield from reader.read(body, prose=False)


def _weight(kind: str, seen: _Sightings, lines: int) -> float:
    worth, rarity = _WORTH[kind], math.log(1 + lines / seen.lines)
    if kind == WORD:
        return worth * math.pow(rarity, _RARITY_POWER)
    if kind == NAME:
        return worth + _NAME_RARITY * rarity
    if kind in {KEY, DONE}:
        return worth
    used = 1.0 + _SAID_BY_USER * seen.by_user + _USED_IN_CALL * seen.in_call
    used += _REPEATED * math.log(seen.lines)
    # Squared, so that age costs little until it is recent turns it is compared with.
    return worth * used * (_OLDEST + _NEWEST * seen.last_at**2)
