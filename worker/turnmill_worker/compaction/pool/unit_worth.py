"""What a unit is worth: the words, names and identifiers it would carry into the summary."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final, NamedTuple

from turnmill_worker.compaction.pool.factors import (
    field_factors,
    is_filling_slots,
    list_factors,
    routine_factors,
    slot_factors,
    user_factors,
)
from turnmill_worker.compaction.pool.standing import standings
from turnmill_worker.compaction.pool.work_worth import DONE, ENDED
from turnmill_worker.old_reading.units import CAME_OF_IT, TOOLS, Line, Source, Unit
from turnmill_worker.old_reading.words import (
    CAPS,
    CODE,
    NAME,
    NUMBER,
    WORD,
    Concept,
    concepts_of,
    numbered,
)

VALUE: Final = "value"
KEY: Final = "key"

DECAY: Final = {
    WORD: 1.0, NAME: 0.6, CODE: 0.05, NUMBER: 0.1, CAPS: 0.1, VALUE: 0.1, KEY: 0.5, DONE: 1.0,
}  # fmt: skip
"""What a concept is still worth each time it is already kept. Words hold theirs: said of another
turn, the same word is another fact (`patterns` catch repeated sentences). An identifier is needed
once."""

_LONGEST_VALUE: Final = 60

_COUNTER = re.compile(r"\d{1,4}$")
"""A number that stands for itself: no part of an identifier."""

_COUNTED = re.compile(r"(?:^| )\d{1,3}$")
"""The number of a list's element, which only tells it from the others."""

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


class _Seen:
    """Where concepts were met, by their numbers: in how many lines, whose, and how late."""

    def __init__(
        self,
        lines: Sequence[Line],
        units: Sequence[Unit],
        texts: Sequence[str],
        by_unit: Sequence[Sequence[int]],
    ) -> None:
        in_line: dict[int, set[int]] = defaultdict(set)
        self.last_at: dict[int, float] = {}
        total = sum(map(len, texts)) or 1
        for unit, passed, own in zip(units, accumulate(map(len, texts)), by_unit, strict=True):
            in_line[unit.line].update(own)
            self.last_at.update(dict.fromkeys(own, passed / total))
        self.lines = Counter(chain.from_iterable(in_line.values()))
        self.by_user, self.in_call, self.outside_results = set[int](), set[int](), set[int]()
        for line, met in in_line.items():
            source = lines[line].source
            if source is not Source.RESULT:
                self.outside_results |= met
            if source is Source.USER:
                self.by_user |= met
            elif source is Source.CALL:
                self.in_call |= met

    def weight(self, number: int, kind: str, lines: int) -> float:
        """What no plain word weighs: an identifier by who used it, and how late."""
        worth, times = _WORTH[kind], self.lines[number]
        if kind == NAME:
            return worth + _NAME_RARITY * math.log(1 + lines / times)
        if kind in {KEY, DONE}:
            return worth
        used = 1.0 + _SAID_BY_USER * (number in self.by_user)
        used += _USED_IN_CALL * (number in self.in_call)
        used += _REPEATED * math.log(times)
        # Squared, so that age costs little until it is recent turns it is compared with.
        return worth * used * (_OLDEST + _NEWEST * self.last_at[number] ** 2)


def appraise(
    lines: Sequence[Line],
    units: Sequence[Unit],
    texts: Sequence[str],
    costs: Sequence[int],
    budget: int,
) -> Worth:
    """Weighs every concept by rarity and, for identifiers, by who used it, and how late.

    ``costs`` are the tokens of each text, ``budget`` those of the summary.
    """
    read = [
        _read(unit.label, text, unit.body_at, unit.role in ENDED)
        for unit, text in zip(units, texts, strict=True)
    ]
    numbers = numbered([each.concepts for each in read])
    by_unit = [tuple(map(numbers.__getitem__, each.concepts)) for each in read]
    seen = _Seen(lines, units, texts, by_unit)
    used = list(map(seen.outside_results.__contains__, range(len(numbers))))
    known = tuple(standings(lines, units))
    slots = is_filling_slots(lines, units)
    factors = [
        known,
        field_factors(lines, units, by_unit, used, slots=slots),
        list_factors(lines, units, by_unit, used),
    ]
    factors.append(routine_factors(units))
    if slots:
        factors.append(slot_factors(lines, units))
    elif any(line.source in TOOLS for line in lines):
        factors.append(user_factors(lines, units, costs, budget))
    return Worth(
        by_unit=tuple(by_unit),
        weights=_weights(numbers, seen, len(lines)),
        decays=tuple([DECAY[kind] for kind, _ in numbers]),
        factors=tuple(map(math.prod, zip(*factors, strict=True))),
        standings=known,
        patterns=_patterns(read, [lines[unit.line].source for unit in units]),
    )


def _weights(numbers: Mapping[Concept, int], seen: _Seen, lines: int) -> tuple[float, ...]:
    of_words = {times: _weight_of_word(lines / times) for times in set(seen.lines.values())}
    return tuple(
        [
            of_words[seen.lines[number]] if kind == WORD else seen.weight(number, kind, lines)
            for number, (kind, _) in enumerate(numbers)
        ]
    )


def _patterns(read: Sequence[_Reading], sources: Sequence[Source]) -> tuple[int, ...]:
    known: dict[tuple[str, ...], int] = {}
    found = []
    for each, source in zip(read, sources, strict=True):
        words = each.words or (each.counted if source is Source.CALL else ())
        found.append(known.setdefault(words, len(known)) if len(words) > 1 else -1)
    return tuple(found)


class _Reading(NamedTuple):
    """A unit's concepts, each once, and what makes it like others.

    Attributes:
        words: by which sentences are alike.
        counted: of a field, its key and its value but for what may count up: pages, parts, days.
    """

    concepts: tuple[Concept, ...]
    words: tuple[str, ...]
    counted: tuple[str, ...] = ()


@lru_cache(_KNOWN)
def _read(label: str, text: str, body_at: int, done: bool) -> _Reading:  # noqa: FBT001 - a part of its key
    found = dict.fromkeys(_concepts(label, text, body_at, done=done))
    words = tuple(value for kind, value in found if kind == WORD)
    if body_at and CAME_OF_IT not in text:
        words = ()
    counts = bool(body_at) and _COUNTER.match(text, body_at)
    return _Reading(tuple(found), words, (text[:body_at], "#") if counts else ())


def _concepts(label: str, text: str, body_at: int, *, done: bool) -> Iterator[Concept]:
    """The concepts of a unit's label, its key and its text."""
    if label:
        yield from concepts_of(_COUNTED.sub("", label), prose=False)
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
