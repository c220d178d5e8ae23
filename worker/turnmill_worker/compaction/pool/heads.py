"""What a record is called: it stands before any of its fields, or nobody knows whose they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from turnmill_worker.old_reading.flat_json import SHARED
from turnmill_worker.old_reading.units import Line, Source, Unit

__all__ = ["Heads", "costs_with_names", "heads_of", "with_heads"]

Heads = Mapping[int, tuple[int, ...]]
"""For the position of a field, the positions of those that say what it belongs to."""

_LONGEST: Final = 40
_WHOLE: Final = 200
"""Characters: so much of what is passed to a tool is told together."""

_CALLED = re.compile(r"(?:^|[._ -]|(?<=[a-z]))(?:[Nn]ame|[Tt]itle)=")
_NAMES = re.compile(r"(?:^|[._ -]|(?<=[a-z]))(?:[Ii]d|ID|[Nn]umber)=")
_IDENTIFIER = re.compile(r"#?(?=\w*\d)[A-Za-z]\w{3,}")


def heads_of(lines: Sequence[Line], units: Sequence[Unit]) -> Heads:
    """The name of each record, and that of the record they hang in; of a call, all it passes."""
    found: dict[int, tuple[int, ...]] = {}
    for line, members in groupby(range(len(units)), key=lambda at: units[at].line):
        own = [*members]
        if not any(_is_of_record(units[at]) for at in own):
            continue
        if lines[line].source is Source.CALL:
            found.update(_of_call(own, units))
        else:
            found.update(_of_records(own, units))
    return found


def costs_with_names(
    costs: Sequence[int], heads: Heads, lines: Sequence[Line], units: Sequence[Unit]
) -> list[int]:
    """What units cost, each with the name of whom a result tells it."""
    found = list(costs)
    for place, own in heads.items():
        if lines[units[place].line].source is not Source.CALL and not _calls(units[place]):
            found[place] += sum(costs[at] for at in own if _calls(units[at]))
    return found


def with_heads(order: Iterable[int], heads: Heads) -> list[int]:
    """The same positions, each behind what it belongs to."""
    return list(dict.fromkeys(at for own in order for at in (*heads.get(own, ()), own)))


def _of_call(places: Sequence[int], units: Sequence[Unit]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """All that is passed beside it, where that is little; else what is passed in its record."""
    whole = [[*places]]
    if sum(len(units[place].text) for place in places) > _WHOLE:
        whole = [[*own] for _, own in groupby(places, key=lambda place: units[place].group)]
    for own in whole:
        if sum(len(units[place].text) for place in own) <= _WHOLE:
            for place in own:
                yield place, tuple(other for other in own if other != place)


def _of_records(
    places: Sequence[int], units: Sequence[Unit]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    records = [[*own] for _, own in groupby(places, key=lambda place: units[place].group)]
    labels = Counter(units[own[0]].label for own in records)
    root: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    of = ""
    for own in records:
        label = units[own[0]].label
        if label == SHARED or label.startswith(f"{SHARED} "):
            shared, of = tuple(own), label[len(SHARED) + 1 :]
            continue
        if not label.startswith(of):
            shared, of = (), ""
        named = tuple(place for place in own if _names(units[place]))[:1]
        if not label:
            root = named
        elif labels[label] == 1:
            named = ()
        elif not named:
            named = tuple(place for place in own if _calls(units[place]))[:1]
        heads = (*root, *named) if label else root
        for place in own:
            yield place, tuple(other for other in (*shared, *heads) if other != place)


def _is_of_record(unit: Unit) -> bool:
    return bool(unit.body_at or unit.label)


def _calls(unit: Unit) -> bool:
    """Whether a field says what somebody or something without an identifier is called."""
    return _CALLED.search(unit.text[: unit.body_at]) is not None and len(unit.text) <= _LONGEST


def _names(unit: Unit) -> bool:
    """Whether a field says what its record is called."""
    value = unit.text[unit.body_at :]
    if not unit.body_at or len(value) > _LONGEST:
        return False
    return bool(_NAMES.search(unit.text[: unit.body_at]) or _IDENTIFIER.fullmatch(value))
