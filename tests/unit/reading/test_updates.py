"""Which statements a later one makes past: free speech and fields, and what stays side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.effort import assert_linear, least_cpu_s
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Units
from turnmill_worker.old_reading.updates import marked, superseded

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("updates.jsonl").read_text("utf-8").splitlines()
]
BEFORE = (
    ("user", "Can you help me plan the week?"),
    ("assistant", "Of course. What do you need?"),
)
BETWEEN = (
    ("assistant", "Noted, thanks for telling me."),
    ("user", "What else should I keep in mind about my garden?"),
    ("assistant", "Water the tomatoes in the morning and prune the roses in 2 rounds."),
)
OLD_AT, NEW_AT = 3, 7


def units_of(*said: tuple[str, str]) -> Units:
    return read_units(
        [(seq, {"role": role, "content": text}) for seq, (role, text) in enumerate(said, 1)]
    )


def past_of(found: Units) -> list[tuple[int | None, str, int]]:
    """What is past: the seq that stated it, the value, and the seq of the newer one."""
    return [
        (found.lines[found.units[at].line].seq, newer.value, newer.seq)
        for at, all_newer in superseded(found).items()
        for newer in all_newer
    ]


def past_in(case: dict[str, Any]) -> list[tuple[int | None, str, int]]:
    first, second = case["said"]
    return past_of(units_of(*BEFORE, ("user", first), *BETWEEN, ("user", second)))


def test_most_updates_are_found_and_nothing_else_is_past() -> None:
    updates = [case for case in CASES if case["old"]]
    found = [
        case
        for case in updates
        if any(
            (said, by) == (OLD_AT, NEW_AT) and (case["old"] in value or value in case["old"])
            for said, value, by in past_in(case)
        )
    ]
    assert len(found) >= 0.9 * len(updates), [c["said"] for c in updates if c not in found]


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case["old"]], ids=lambda case: case["said"][1]
)
def test_what_is_said_of_something_else_supersedes_nothing(case: dict[str, Any]) -> None:
    assert past_in(case) == []


def test_what_was_replaced_and_is_told_again_replaces_nothing() -> None:
    found = units_of(
        *BEFORE,
        ("user", "I have read 12 chapters."),
        *BETWEEN,
        ("user", "I have read 15 chapters."),
        ("user", "I have read 12 chapters."),
    )

    assert past_of(found) == [(3, "12 chapters", 7)]


def test_a_mark_stands_behind_the_value() -> None:
    found = units_of(
        *BEFORE,
        ("user", "The kitchen budget is $3,000, for now."),
        *BETWEEN,
        ("user", "I raised the kitchen budget to $4,500."),
    )
    ((at, newer),) = superseded(found).items()
    assert marked(found.units[at].text, newer) == "The kitchen budget is $3,000 (until 7), for now."


def test_what_is_marked_is_not_marked_again() -> None:
    said = "The kitchen budget is $3,000 (until 7), for now."
    found = units_of(
        *BEFORE, ("user", said), *BETWEEN, ("user", "I raised the kitchen budget to $4,500.")
    )
    assert past_of(found) == []


def test_a_new_address_replaces_the_old_one_of_the_same_thing_only() -> None:
    found = units_of(
        ("user", "Send the weekly report to anna@example.com."),
        ("user", "Refunds go to shop@example.com."),
        ("user", "The weekly report goes to ben@example.com now."),
    )
    assert past_of(found) == [(1, "anna@example.com", 3)]


@pytest.mark.parametrize(
    "more",
    [
        "Please cc ben@example.com on the weekly report now.",
        "Also send the weekly report to ben@example.com now.",
        "The weekly report now goes to ben@example.com, too.",
    ],
)
def test_one_more_address_replaces_none(more: str) -> None:
    assert (
        past_of(units_of(("user", "The weekly report goes to anna@example.com."), ("user", more)))
        == []
    )


def test_of_three_values_each_is_past_once_the_next_is_said() -> None:
    found = units_of(
        ("user", "The kitchen budget is $3,000."),
        ("user", "The kitchen budget is now $4,500."),
        ("user", "We raised the kitchen budget to $5,000."),
    )
    assert past_of(found) == [(1, "$3,000", 2), (2, "$4,500", 3)]


def test_what_the_assistant_made_of_an_old_value_is_past_too() -> None:
    found = units_of(
        ("user", "The kitchen budget is $3,000."),
        ("assistant", "With a kitchen budget of $3,000 the oven may cost a third."),
        ("user", "The kitchen budget is now $4,500."),
    )
    assert [seq for seq, *_ in past_of(found)] == [1, 2]


def test_an_assistant_that_proposes_changes_nothing() -> None:
    found = units_of(
        ("user", "The kitchen budget is $3,000."),
        ("assistant", "You could raise the kitchen budget to $4,500."),
    )
    assert past_of(found) == []


def test_what_the_assistant_has_changed_counts() -> None:
    found = units_of(
        ("user", "Book the table for 4 people at the harbour."),
        ("assistant", "I have changed your table booking to 6 people at the harbour."),
    )
    assert past_of(found) == [(1, "4 people", 2)]


def result(tool: str, arguments: str, content: str, at: int) -> list[tuple[int, dict[str, Any]]]:
    function = {"name": tool, "arguments": arguments}
    call = {"id": f"c{at}", "type": "function", "function": function}
    return [
        (at, {"role": "assistant", "content": None, "tool_calls": [call]}),
        (at, {"role": "tool", "tool_call_id": f"c{at}", "content": content}),
    ]


def test_a_field_returned_again_replaces_the_same_field_of_the_same_thing() -> None:
    found = read_units(
        [
            *result("get_order", '{"order": "W1"}', '{"order_id": "W1", "status": "pending"}', 1),
            *result("get_order", '{"order": "W2"}', '{"order_id": "W2", "status": "pending"}', 2),
            *result("get_order", '{"order": "W1"}', '{"order_id": "W1", "status": "sent"}', 3),
        ]
    )
    assert past_of(found) == [(1, "pending", 3)]


@pytest.mark.parametrize("own", ["SDZQKO", "7"], ids=["of letters", "a small number"])
def test_what_belongs_to_one_user_is_not_one_thing(own: str) -> None:
    """An object is known by its own identifier, whatever shape that has, not by its owner's."""
    first = json.dumps({"reservation_id": own, "user_id": "ann_lee_4397", "cabin": "business"})
    second = first.replace(own, "4OG6T3").replace("business", "economy")
    found = read_units(
        [*result("get", '{"of": "first"}', first, 1), *result("get", '{"of": "next"}', second, 2)]
    )
    assert past_of(found) == []


@pytest.mark.parametrize("key", ["order_id", "orderId", "id", "orderid"])
def test_an_identifier_is_known_by_its_key_however_that_is_written(key: str) -> None:
    sent = [json.dumps({key: "W1", "status": status}) for status in ("pending", "sent")]
    found = read_units(
        [*result("get", '{"of": "now"}', sent[0], 1), *result("get", '{"of": "then"}', sent[1], 2)]
    )
    assert past_of(found) == [(1, "pending", 2)]


def test_two_items_of_one_product_replace_nothing_of_each_other() -> None:
    items = [
        {"product_id": "1968349452", "item_id": "4545791457", "length": "28 inch"},
        {"product_id": "1968349452", "item_id": "3098764622", "length": "34 inch"},
    ]
    order = json.dumps({"order_id": "#W7553978", "items": items})

    assert past_of(read_units(result("get_order", '{"order": "#W7553978"}', order, 1))) == []


def test_a_call_made_again_replaces_what_it_returned() -> None:
    found = read_units(
        [
            *result("weather", '{"city": "Rome"}', '{"degrees": "21"}', 1),
            *result("weather", '{"city": "Oslo"}', '{"degrees": "9"}', 2),
            *result("weather", '{"city": "Rome"}', '{"degrees": "25"}', 3),
        ]
    )
    assert past_of(found) == [(1, "21", 3)]


@pytest.mark.parametrize(
    "text",
    [
        "now " * 25_000,
        "the limit is now 5 " * 5_000,
        "changed from 5 to 7 " * 5_000,
        "instead of Rome " * 6_000,
        "1 " * 50_000,
        "x" * 100_000,
        "April 1 " * 12_000,
        "#1-" * 33_000,
    ],
    ids=lambda text: text[:20],
)
def test_hostile_text_costs_time_in_its_length(text: str) -> None:
    found = {
        share: units_of(*(("user", text[: len(text) * share // 4]) for _ in range(2)))
        for share in range(1, 5)
    }

    assert_linear(lambda share: superseded(found.get(share, found[1])), size=1)
    assert least_cpu_s(lambda: superseded(found[4])) < 3
