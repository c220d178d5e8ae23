"""The score says what share of the worth can still be read, and which text states what is past."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.effort import assert_linear
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.known import NOTHING_KNOWN
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.score import kept, lines_of, stale


def invoice(number: int) -> list[dict[str, Any]]:
    function = {"name": "get_invoice", "arguments": f'{{"id": "INV-{2000 + number}"}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    row = f'{{"id": "INV-{2000 + number}", "total": {number * 37}.5, "po": "PO-{number * 91}"}}'
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": row},
    ]


def talked(number: int) -> list[dict[str, Any]]:
    text = f"The crate for Anna{number} weighs {number * 13} kilos and goes to pier P-{number * 7}."
    return [{"role": "user", "content": text}]


def digest(turns: list[list[dict[str, Any]]]) -> Digest:
    readings = Readings(len)
    read = [each for seq, own in enumerate(turns, 1) for each in readings.of_turn(seq, own)]
    return Digest(NOTHING_KNOWN, read, len, through=len(turns))


def share(found: Digest, text: str) -> float:
    return kept(found.units, lines_of([text]), found.worths).everything


WORK = [invoice(number) for number in range(1, 41)]
TALK = [talked(number) for number in range(1, 41)]


def rows(numbers: range) -> list[str]:
    return [f"INV-{2000 + n} | {n * 37}.5 | PO-{n * 91}" for n in numbers]


@pytest.mark.parametrize("turns", [WORK, TALK])
def test_all_of_it_is_worth_one_and_nothing_of_it_nothing(turns: Any) -> None:
    found = digest(turns)
    whole = found.text(100_000)

    assert share(found, whole) > 0.95
    assert share(found, "The harbour was quiet all day.") < 0.1
    assert share(digest([]), "") == 1.0


def test_it_falls_with_every_item_that_is_removed() -> None:
    found = digest(WORK)

    shares = [share(found, "\n".join(rows(range(1, left)))) for left in range(41, 0, -4)]

    assert all(before > after for before, after in pairwise(shares))


def test_a_text_that_lost_most_items_does_not_score_well() -> None:
    found = digest(WORK)
    few = "\n".join(rows(range(1, 11)))

    assert share(found, few) < 0.5
    # The calibration of the quality score adds to it.
    assert 1 - (1 - share(found, few)) ** 2 < 0.7


def test_values_without_their_records_keep_no_record() -> None:
    found = digest(WORK)
    names = "\n".join(f"INV-{2000 + n}" for n in range(1, 41))
    scattered = "\n".join(part for row in rows(range(1, 41)) for part in row.split(" | "))

    assert share(found, names) < share(found, "\n".join(rows(range(1, 41)))) - 0.2
    assert share(found, scattered) < share(found, "\n".join(rows(range(1, 41)))) - 0.2


def test_what_was_spoken_of_last_is_measured_apart() -> None:
    found = digest(TALK)
    one, *others = found.units
    about = set(one.ids).difference(*(each.ids for each in others))
    first, rest = found.text(100_000).split("\n", 1)

    with_it = kept(found.units, lines_of([first]), found.worths, about)
    without = kept(found.units, lines_of([rest]), found.worths, about)

    assert with_it.everything < without.everything
    assert with_it.matters > with_it.everything


OLDER, NEWER = "Ship the crates to pier 14 by Friday.", "Ship the crates to pier 29 instead."


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The crates go to pier 14 by Friday; ship them.", 1),
        ("1 user: Ship the crates to pier 14 by Friday. (changed in turn 9)", 0),
        ("Ship the crates to pier 29, not pier 14.", 0),
        ("Pier 14 is closed.", 0),
        ("", 0),
    ],
)
def test_what_a_text_states_although_it_was_changed_is_counted(text: str, wrong: int) -> None:
    assert stale(text, {OLDER: NEWER}) == wrong
    assert stale(text, {}) == 0


def test_scoring_takes_time_in_proportion_to_the_text() -> None:
    found = digest(TALK)
    units, worths = found.units, found.worths

    assert_linear(
        lambda size: kept(units, lines_of(["The crate for Anna3 weighs 39.\n" * size]), worths),
        size=500,
    )
