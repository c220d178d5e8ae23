"""Which later sentence replaces an earlier one: few are marked, and those are right."""

from __future__ import annotations

import pytest

from benchmarks.fit import measure
from turnmill_worker.reading.changes import may_change, replaces, restates


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The API times out after 400 ms.", "We moved the API timeout to 250 ms."),
        ("Our kitchen budget is $3,000.", "The kitchen budget is now $4,500."),
        ("The launch is on 2026-03-08.", "The launch was pushed back to 03-22."),
        ("The robot's title is ZX-100.", "We are calling the robot ZX-220 now."),
        ("Work is on branch fix/abc-1.", "We switched to branch fix/xyz-9."),
        ("My goal is 8,000 steps a day.", "From now on my goal is 10,000 steps a day."),
    ],
)
def test_a_new_value_of_the_same_thing_replaces_the_old_one(older: str, newer: str) -> None:
    assert may_change(newer)
    assert replaces(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The API times out after 400 ms.", "The database answered within 250 ms."),
        ("The thesis has 62 pages.", "The appendix has 18 pages."),
        ("Our site runs on Apache.", "Our wiki runs on Caddy now."),
        ("I take 50 mg in the morning.", "My mother takes 25 mg in the evening."),
        ("I love long walks with my dog.", "Walks with the dog are so much fun now."),
        ("Don't worry, progress takes time.", "Progress is key, so keep pushing."),
        ("Order W442 is mine.", "Could you also look at order W907?"),
        ("We never deploy on Fridays.", "We have pizza on Fridays."),
    ],
)
def test_what_is_said_of_something_else_replaces_nothing(older: str, newer: str) -> None:
    assert not replaces(older, newer)
    assert not replaces(older, newer, rule=True)


def test_a_rule_is_also_taken_back_without_another_value() -> None:
    older = "Never mention the merger to anybody."
    newer = "You can mention the merger now, it is public."

    assert replaces(older, newer, rule=True)
    assert not replaces(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Orders over 4500 need my approval.", "Orders over 8000, not over 4500, need approval."),
        ("Flag invoices above 900 EUR.", "Flag invoices above 1,200 EUR only."),
    ],
)
def test_a_rule_with_another_amount_is_laid_down_anew(older: str, newer: str) -> None:
    assert restates(older, newer)


def test_a_question_changes_nothing() -> None:
    assert not may_change("Is the kitchen budget now $4,500?")
    assert not restates("Orders over 4500 need approval.", "Do orders over 8000 need approval?")


def test_of_what_was_kept_aside_some_is_found_and_next_to_nothing_marked_wrongly() -> None:
    rows = {row.name: row for row in measure.pair_rows()}
    remarks, sessions = rows["changes: remarks"], rows["changes: sessions"]

    assert remarks.found >= 0.15 * remarks.whole
    assert remarks.taken <= 0.08 * remarks.others
    assert sessions.taken <= 0.0006 * sessions.others
