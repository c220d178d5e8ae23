"""What a record is called by: without it nobody knows whose the values beside it are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from turnmill_worker.reading.units import Source, Units

__all__ = ["names_first"]

_FEW: Final = 2
"""More fields tell a record from those it was listed with; beside each a name would take the room
of other values."""

_NAMES = re.compile(
    r"(?:[\w.]{0,60}[_.])?(?:name|id|number|title)=|[\w.]{0,60}[a-z](?:Name|Id|Number|Title)="
)
_NUMBER: Final = r"#?(?=\w{0,60}\d)(?=\w{0,60}[A-Za-z])[A-Za-z]\w{3,60}"
_NUMBERED = re.compile(rf"[^=]{{1,64}}={_NUMBER}")


def names_first(units: Units, order: Sequence[int]) -> list[int]:
    """The order, where what names a listed record stands before the few fields told of it."""
    own = units.units
    told = Counter(own[position].group for position in order)
    names = _names(units, told)
    found: dict[int, None] = {}
    for position in order:
        name = names.get(own[position].group)
        if name is not None and told[own[position].group] <= _FEW:
            found.setdefault(name)
        found.setdefault(position)
    return list(found)


def _names(units: Units, told: Counter[int]) -> dict[int, int]:
    """By group of which something is told, the field that names it, if it was listed with others.

    In a result only: what somebody passes on, they have named.
    """
    listed = {
        (unit.line, unit.label, unit.group)
        for unit in units.units
        if unit.body_at and units.lines[unit.line].source is Source.RESULT
    }
    together = Counter((line, label) for line, label, _ in listed)
    names: dict[int, int] = {}
    for at, unit in enumerate(units.units):
        if unit.group in names or unit.group not in told or together[unit.line, unit.label] == 1:
            continue
        if _NAMES.match(unit.text) or _NUMBERED.fullmatch(unit.text):
            names[unit.group] = at
    return names
