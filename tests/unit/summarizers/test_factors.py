"""What a field's values are worth, by whether anybody passed such values on."""

from __future__ import annotations

import pytest

from turnmill_worker.compaction.pool.factors import (
    field_factors,
    is_filling_slots,
    user_factors,
)
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.units import Line, Source, Unit

CALL = Line(1, Source.CALL, "book")
RESULT = Line(2, Source.RESULT, "book")


def field(line: int, key: str, value: str) -> Unit:
    return Unit(line, line, "", f"{key}={value}", len(key) + 1)


def test_a_field_whose_values_were_passed_on_counts_for_more_than_one_nobody_asked_for() -> None:
    units = [field(0, "flight", "HAT1"), field(1, "flight", "HAT1"), field(1, "seat", "S9")]

    said, passed_on, ignored = field_factors(
        [CALL, RESULT], units, by_unit=[[0], [0], [1]], used=[True, False], slots=False
    )

    assert said == 1.0
    assert passed_on > ignored


def test_a_field_met_once_says_less_than_one_met_often() -> None:
    units = [field(1, "seat", "S9")] + [field(1, "gate", f"G{n}") for n in range(20)]
    by_unit = [[n] for n in range(21)]

    met_once, met_often, *_ = field_factors(
        [CALL, RESULT], units, by_unit, used=[False] * 21, slots=False
    )

    assert met_once > 1.0 > 2 * met_often


def test_where_slots_are_filled_no_field_is_of_no_use() -> None:
    units = [field(1, "gate", f"G{n}") for n in range(20)]
    by_unit = [[n] for n in range(20)]

    gate, *_ = field_factors([CALL, RESULT], units, by_unit, used=[False] * 20, slots=True)

    assert gate >= 1.0


def test_a_day_or_an_hour_is_no_identifier_by_which_tools_are_called() -> None:
    said = Unit(0, 0, "", "A table on March 12th, 11am.", 0)
    booked = Unit(1, 1, "", "order=W7730021", len("order="))
    lines = [Line(1, Source.USER), CALL]

    assert is_filling_slots(lines, [said])
    assert not is_filling_slots(lines, [said, booked])


@pytest.mark.parametrize(("budget", "worth"), [(50, 1.0), (100, 2.0), (200, 2.0), (1_000, 1.0)])
def test_a_users_words_come_first_beside_tools_where_they_fit_and_are_no_small_part(
    budget: int, worth: float
) -> None:
    said = Unit(0, 0, "", "Never call Anna.")
    pasted = said._replace(role=Role.QUOTATION)
    lines = [Line(1, Source.USER), CALL]

    own, quoted, called = user_factors(
        lines, [said, pasted, field(1, "day", "D1")], costs=[100, 100, 100], budget=budget
    )

    assert (own, quoted, called) == (worth, 1.0, 1.0)
