"""What a unit is worth: the words, names and identifiers it would carry into the summary."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Final

from turnmill_worker.compaction.pool.work_worth import DONE, ENDED, WORK
from turnmill_worker.reading.actions import Role
from turnmill_worker.reading.code_lines import is_heading
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


# --- factors: what place, wording and field multiply that worth by -----------------------------

LEAD: Final = 1.25
"""People open a longer message with its point."""

QUESTION: Final = 0.8
ANSWER: Final = 1.8
OF_ONESELF: Final = 1.5
TO_THE_OTHER: Final = 0.6
"""People who talk tell facts of themselves, and most of all when asked; what they say to the other
is mostly praise and thanks. Where tools are used this does not hold: there a question is the task.
"""

UNUSED_FIELD: Final = 1.0
USED_FIELD: Final = 2 * UNUSED_FIELD
"""A result's field, by how much of what it held was said or passed on: of a flight the number is
asked for again, not the seats left."""

HEADING: Final = 0.3
"""A line that only names what follows."""

_PLAIN_ANSWER: Final = 6
LONG_ANSWER: Final = 0.7
"""An assistant's sentences beyond that many share what so many are worth, to this power: long
answers are mostly advice, and what was decided is said in few words."""

_FEW_RECORDS: Final = 3
LISTED: Final = 0.3
"""The same for the records of one result that nobody spoke of."""

SPOKEN: Final = 2.0
RECENT: Final = 1.0
RETURNED: Final = 0.5
"""Where no identifiers are passed on, what will be needed is what was said, and said of late."""

LABELLED: Final = 1.6
"""What a user put a label in capitals before: ``DECISION: …``, ``NOTE: …``."""

_USUAL_SHARE: Final = 0.4
_DOUBT: Final = 3
"""So many concepts of a field must be met before its own share counts more than the usual one."""

_LONG_MESSAGE: Final = 3
_TALK: Final = frozenset({Source.USER, Source.ASSISTANT})
_TOOLS: Final = frozenset({Source.CALL, Source.RESULT})
_QUESTION_MARKS: Final = ("?", "？", "؟")
_IDENTIFIER = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b|\w_\d|\w@\w")
_CAPITAL = r"[^\W\d_a-zß-ÿа-яё]"
_LABELLED = re.compile(rf"{_CAPITAL}{{2,20}}(?:[ _-]{_CAPITAL}{{1,20}}){{0,2}}: ?\w")
_OWN = re.compile(r"\b(?:I|[Mm]y|me|mine|[Ww]e|[Oo]ur|us)\b")
_YOURS = re.compile(r"\b[Yy]ours?\b|\b[Yy]ou\b")


def is_talk(lines: Sequence[Line]) -> bool:
    """Whether two speak, and no tool is called."""
    sources = {line.source for line in lines}
    return sources >= _TALK and not sources & _TOOLS


def is_filling_slots(lines: Sequence[Line], units: Sequence[Unit]) -> bool:
    """Whether tools are called with plain words and numbers only, as one books a table."""
    spoken = {Source.USER, Source.CALL}
    return any(line.source in _TOOLS for line in lines) and not any(
        _IDENTIFIER.search(unit.text, unit.body_at)
        for unit in units
        if lines[unit.line].source in spoken
    )


def slot_factors(lines: Sequence[Line], units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's factor where slots are filled."""
    last = max(len(lines) - 1, 1)
    for unit in units:
        source = lines[unit.line].source
        if source in _TALK:
            yield SPOKEN * (1 + RECENT * (unit.line / last) ** 2)
        else:
            yield RETURNED if source is Source.RESULT else 1.0


def first_standings(lines: Sequence[Line], units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's factor for its place, its form and, in a talk without tools, its wording."""
    talk = is_talk(lines)
    asked = False
    for at, members in groupby(units, key=lambda unit: unit.line):
        line, own = lines[at], list(members)
        spoken = line.source in _TALK
        plain = spoken and own[0].is_prose
        forms = _forms(line, own) if plain else repeat(1.0, len(own))
        for place, (unit, factor) in enumerate(zip(own, forms, strict=True)):
            opens_long = place == 0 and len(own) >= _LONG_MESSAGE and unit.is_prose
            factor *= WORK[unit.role]  # noqa: PLW2901 - one product of five
            if opens_long and line.source is Source.USER:
                factor *= LEAD  # noqa: PLW2901
            if line.source is Source.USER and _LABELLED.match(unit.text):
                factor *= LABELLED  # noqa: PLW2901
            if talk and spoken:
                answers = asked and place == 0
                factor *= _wording(unit.text, settled=line.settled, answers=answers)  # noqa: PLW2901
            yield factor
        asked = spoken and own[-1].text.endswith(_QUESTION_MARKS)


def _forms(line: Line, own: Sequence[Unit]) -> Iterator[float]:
    """A heading says little, and the more an assistant says, the less each of it."""
    sentences = sum(unit.role is not Role.QUOTATION for unit in own)
    factor = 1.0
    if line.source is Source.ASSISTANT and sentences > _PLAIN_ANSWER:
        factor = (_PLAIN_ANSWER / sentences) ** LONG_ANSWER
    for unit in own:
        yield factor * (HEADING if is_heading(unit.text) else 1.0)


def _wording(text: str, *, settled: bool, answers: bool) -> float:
    yours = _YOURS.search(text)
    factor = 1.0
    # A settled sentence has lost its opening "I" to telegraph style.
    if _OWN.search(text) or (settled and not yours):
        factor = OF_ONESELF
    elif yours:
        factor = TO_THE_OTHER
    if text.endswith(_QUESTION_MARKS):
        return factor * QUESTION
    return factor * ANSWER if answers else factor


def field_factors(
    lines: Sequence[Line],
    units: Sequence[Unit],
    by_unit: Sequence[Sequence[int]],
    used: Sequence[bool],
) -> Iterator[float]:
    """Each unit's factor for its field; `used` tells which concepts stand outside results too."""
    keys = [
        unit.text[: unit.body_at] if lines[unit.line].source is Source.RESULT else ""
        for unit in units
    ]
    held: dict[str, set[int]] = {}
    for key, concepts in zip(keys, by_unit, strict=True):
        if key:
            held.setdefault(key, set()).update(concepts)
    factors = {"": 1.0}
    for key, whole in held.items():
        times = sum(used[concept] for concept in whole)
        share = (_DOUBT * _USUAL_SHARE + times) / (_DOUBT + len(whole))
        factors[key] = UNUSED_FIELD + (USED_FIELD - UNUSED_FIELD) * share
    return (factors[key] for key in keys)


def list_factors(
    lines: Sequence[Line],
    units: Sequence[Unit],
    by_unit: Sequence[Sequence[int]],
    used: Sequence[bool],
) -> Iterator[float]:
    """Each unit's factor for the records it was listed with, unless something of it is used."""
    records: dict[int, set[int]] = {}
    for unit in units:
        if unit.body_at and lines[unit.line].source is Source.RESULT:
            records.setdefault(unit.line, set()).add(unit.group)
    for unit, concepts in zip(units, by_unit, strict=True):
        listed = len(records.get(unit.line, ())) if unit.body_at else 0
        if listed <= _FEW_RECORDS or any(used[concept] for concept in concepts):
            yield 1.0
        else:
            yield (_FEW_RECORDS / listed) ** LISTED
