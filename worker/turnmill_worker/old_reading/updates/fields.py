"""Fields that a tool returned again with another value, of the same thing."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from turnmill_worker.old_reading.units import Source, Unit, Units
from turnmill_worker.old_reading.words import identifies

__all__ = ["replaced_fields"]

_LONGEST: Final = 60
"""A longer value is a text, which a newer one seldom contradicts."""

_Field = tuple[str, str, str, str]


def replaced_fields(found: Units) -> Iterator[tuple[int, str, int]]:
    """Positions of fields, their values, and the position of the field that has a newer one."""
    asked: dict[str, deque[str]] = defaultdict(deque)
    holds: dict[_Field, list[int]] = defaultdict(list)
    units = found.units
    for line_at, members in groupby(range(len(units)), key=lambda at: units[at].line):
        line, own = found.lines[line_at], list(members)
        if line.source is Source.CALL:
            asked[line.name].append(" ".join(units[at].text for at in own))
        elif line.source is Source.RESULT:
            about = asked[line.name].popleft() if asked[line.name] else ""
            fields = list(_fields([(at, units[at]) for at in own], line.name, about))
            times = Counter(field for field, _ in fields)
            for field, at in fields:
                if times[field] > 1:
                    continue  # Two items of one product are two things.
                value = _value(units[at])
                older = holds[field]
                if older and _value(units[older[-1]]) != value:
                    yield from ((past, _value(units[past]), at) for past in older)
                    older.clear()
                older.append(at)


def _fields(units: list[tuple[int, Unit]], tool: str, about: str) -> Iterator[tuple[_Field, int]]:
    """The fields a result states once, by what they belong to."""
    pairs = [(at, unit) for at, unit in units if unit.body_at]
    times = Counter((unit.label, unit.text[: unit.body_at]) for _, unit in pairs)
    whole = ""
    for _, members in groupby(pairs, key=lambda pair: pair[1].group):
        own = list(members)
        known = _identifier([unit for _, unit in own])
        whole = whole if own[0][1].label else known
        # One card pays for many orders: what an object hangs in is a part of what it is.
        owner = known and f"{whole} {known}"
        for at, unit in own:
            key, value = unit.text[: unit.body_at], _value(unit)
            of = owner or (about if times[unit.label, key] == 1 else "")
            if of and value != known and len(value) <= _LONGEST:
                yield (tool, of, unit.label, key), at


def _identifier(units: list[Unit]) -> str:
    """What an object is known by, or ``""``: its own identifier comes before those of others."""
    pairs = ((unit.text[: unit.body_at - 1], _value(unit)) for unit in units)
    return next((value for key, value in pairs if identifies(key, value)), "")


def _value(unit: Unit) -> str:
    return unit.text[unit.body_at :]
