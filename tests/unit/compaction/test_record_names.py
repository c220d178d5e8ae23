"""Values of a record that was listed with others stand beside what that record is called by."""

from __future__ import annotations

import json
from typing import Any

from turnmill_worker.compaction.pool.record_names import names_first
from turnmill_worker.reading.messages import read_units
from turnmill_worker.reading.units import Units


def answered(value: Any) -> list[tuple[int, dict[str, Any]]]:
    return [(1, {"role": "tool", "tool_call_id": "c", "content": json.dumps(value)})]


def at(units: Units, text: str) -> int:
    return next(n for n, unit in enumerate(units.units) if unit.text == text)


FLIGHTS = [
    {"flight_number": f"HAT{n}", "leaves": f"{n % 24:02}:00", "price": 3 * n} for n in (101, 230)
]


def test_the_few_fields_told_of_a_listed_record_bring_its_name() -> None:
    units = read_units(answered({"flights": FLIGHTS}))
    own = [at(units, "leaves=14:00"), at(units, "price=690")]

    assert names_first(units, own) == [at(units, "flight_number=HAT230"), *own]


def test_a_record_of_its_own_is_known_by_its_line() -> None:
    units = read_units(answered(FLIGHTS[0]))
    own = [at(units, "leaves=05:00"), at(units, "price=303")]

    assert names_first(units, own) == own
