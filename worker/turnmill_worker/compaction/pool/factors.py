"""What multiplies the worth of all units of one kind: a field's, a list's, a dialogue's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final

from turnmill_worker.old_reading.units import TALK, TOOLS, Line, Source, Unit, is_own_words

__all__ = [
    "field_factors",
    "is_filling_slots",
    "list_factors",
    "routine_factors",
    "slot_factors",
    "user_factors",
]

UNUSED_FIELD: Final = 1.0
USED_FIELD: Final = 2 * UNUSED_FIELD
NEVER_USED: Final = 0.3
"""A result's field, by how much of what it held was said or passed on: of a flight the number is
asked for again, not the seats left. Traces, versions and the like come often and are never used."""

_FEW_RECORDS: Final = 3
LISTED: Final = 0.35
"""The records of one result that nobody spoke of share what so many are worth, to this power."""

SPOKEN: Final = 2.0
RECENT: Final = 1.0
RETURNED: Final = 0.5
"""Where no identifiers are passed on, what will be needed is what was said, and said of late."""

BESIDE_TOOLS: Final = 2.0
SMALL_SHARE: Final = 0.4
"""What a user says beside tools, while all of it could stay: what tools tell can be asked again.
Where it is a small share of the budget, it stays without that."""

_INSISTED: Final = 2
"""Said twice, a sentence may be meant all the more; said oftener, it is routine."""

_SENTENCE: Final = 4
"""Spaces; what is shorter, like a thank-you, is said again and again by people."""

_USUAL_SHARE: Final = 0.4
_USUAL_FIELD: Final = UNUSED_FIELD + (USED_FIELD - UNUSED_FIELD) * _USUAL_SHARE
_DOUBT: Final = 3
"""So many concepts of a field must be met before its own share counts more than the usual one."""

_IDENTIFIER = re.compile(
    r"\b(?!\d+(?:st|nd|rd|th|am|pm)\b)(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b|\w_\d|\w@\w", re.IGNORECASE
)


def is_filling_slots(lines: Sequence[Line], units: Sequence[Unit]) -> bool:
    """Whether tools are called with plain words and numbers only, as one books a table."""
    spoken = {Source.USER, Source.CALL}
    return any(line.source in TOOLS for line in lines) and not any(
        _IDENTIFIER.search(unit.text, unit.body_at)
        for unit in units
        if lines[unit.line].source in spoken
    )


def routine_factors(units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's factor for how often it was said word for word: what always comes is routine."""
    times = Counter(
        unit.text for unit in units if unit.is_prose and unit.text.count(" ") >= _SENTENCE
    )
    routine = {text: _INSISTED / often for text, often in times.items() if often > _INSISTED}
    return (routine.get(unit.text, 1.0) for unit in units)


def slot_factors(lines: Sequence[Line], units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's factor where slots are filled."""
    last = max(len(lines) - 1, 1)
    for unit in units:
        source = lines[unit.line].source
        worth = SPOKEN if source in TALK else RETURNED if source is Source.RESULT else 1.0
        yield worth * (1 + RECENT * (unit.line / last) ** 2)


def user_factors(
    lines: Sequence[Line], units: Sequence[Unit], costs: Sequence[int], budget: int
) -> Iterator[float]:
    """Each unit's factor beside tools: a user's own words first, while they fit the budget."""
    said = [is_own_words(lines[unit.line], unit) for unit in units]
    share = sum(compress(costs, said)) / max(budget, 1)
    worth = BESIDE_TOOLS if SMALL_SHARE <= share <= 1 else 1.0
    return (worth if own else 1.0 for own in said)


def field_factors(
    lines: Sequence[Line],
    units: Sequence[Unit],
    by_unit: Sequence[Sequence[int]],
    used: Sequence[bool],
    *,
    slots: bool,
) -> Iterator[float]:
    """Each unit's factor for its field; `used` tells which concepts stand outside results too.

    Where ``slots`` are filled, no field is of no use: there people ask for what was listed.
    """
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
        if share < _USUAL_SHARE and not slots:
            factors[key] = NEVER_USED + (_USUAL_FIELD - NEVER_USED) * share / _USUAL_SHARE
        else:
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
