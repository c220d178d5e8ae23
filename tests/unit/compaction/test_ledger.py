"""The ledger keeps values word for word, with what they belong to, however often it is carried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.effort import assert_linear
from tests.realdata import requires_data, sessions
from turnmill_worker.compaction.ledger.selection import Fact, beside, ledger_text
from turnmill_worker.compaction.ledger.selection import ledger as ledger_of
from turnmill_worker.compaction.ledger.stated_values import KINDS
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.tokens import counter_for

count = counter_for("o200k_base", "gpt-4o").count


def ledger(known: Sequence[Fact], records: Any, *rest: Any) -> tuple[Fact, ...]:
    return ledger_of(known, Told(read_units(records)), *rest)


PLENTY = 1_000_000


def said(*texts: str, role: str = "user", first: int = 1) -> list[tuple[int, dict[str, Any]]]:
    return [(seq, {"role": role, "content": text}) for seq, text in enumerate(texts, first)]


def called(seq: int, name: str, **arguments: object) -> tuple[int, dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"c{seq}", "type": "function", "function": function}
    return seq, {"role": "assistant", "content": None, "tool_calls": [call]}


def resulted(seq: int, value: object) -> tuple[int, dict[str, Any]]:
    return seq, {"role": "tool", "tool_call_id": f"c{seq - 1}", "content": json.dumps(value)}


def facts(records: Sequence[tuple[int, dict[str, Any]]]) -> dict[str, Fact]:
    return {fact.text: fact for fact in ledger((), records, PLENTY, count)}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Please cancel order #W1234567 today.", "id", "#W1234567"),
        ("Write to ann.lee@example.org about it.", "email", "ann.lee@example.org"),
        ("The settings are in /srv/conf/ab12.yaml now.", "path", "/srv/conf/ab12.yaml"),
        ("We changed src/app/main.py yesterday.", "path", "src/app/main.py"),
        ("Plans are at https://example.org/p?a=1.", "url", "https://example.org/p?a=1"),
        ("git push --force origin main", "command", "git push --force origin main"),
        ("The upload limit is 40 MB at most.", "number", "40 MB"),
        ("Repairs came to $1,230.50 in all.", "money", "$1,230.50"),
        ("The office reopens on March 3, 2031.", "date", "March 3, 2031"),
        ("The train leaves at 10:40 am sharp.", "date", "10:40 am"),
        ('The project is called "Zephyr".', "name", "Zephyr"),
    ],
)
def test_a_value_of_each_kind_is_kept_as_it_was_written(text: str, kind: str, value: str) -> None:
    assert facts(said(text))[value].kind == kind


def test_an_error_line_is_kept_from_what_a_tool_said() -> None:
    found = facts(said("job 7 done\nTimeoutError: gave up after 3 tries", role="tool"))

    assert found["TimeoutError: gave up after 3 tries"].kind == "error"


def test_what_prose_says_without_values_is_left_to_the_summary() -> None:
    assert (
        ledger((), said("I would rather go by train, if that is fine and/or cheap."), 99, count)
        == ()
    )


def test_a_value_keeps_the_words_it_stood_next_to() -> None:
    [fact] = ledger((), said("Please cancel order #W1234567 but keep the other."), 99, count)

    assert "cancel order #W1234567" in ledger_text([fact])


def test_a_field_keeps_its_key_and_whose_it_is() -> None:
    item = {"name": "T-Shirt", "item_id": "9523456873", "price": 46.66}
    found = ledger((), [resulted(4, {"order_id": "#W1", "items": [item]})], PLENTY, count)

    assert "T-Shirt: item_id 9523456873; price 46.66" in ledger_text(found)


def test_a_call_is_kept_by_its_name_and_key_arguments() -> None:
    found = ledger((), [called(3, "get_order", order_id="#W1234567")], PLENTY, count)

    assert ledger_text(found) == "3 call: get_order: order_id #W1234567"


def test_a_shell_command_in_a_call_is_a_command() -> None:
    found = facts([called(3, "bash", command="pytest -q tests/unit")])

    assert found["pytest -q tests/unit"].kind == "command"


def test_a_fact_says_where_it_is_from_and_who_used_it() -> None:
    records = [
        *said("My order is #W1234567, placed by mail."),
        called(2, "get_order", order_id="#W1234567"),
        resulted(3, {"order_id": "#W1234567"}),
    ]

    fact = facts(records)["#W1234567"]

    assert (fact.seq, fact.last_seq, fact.uses) == (1, 3, 3)
    assert fact.by == ("user", "call", "result")


def test_facts_are_frozen_and_survive_json() -> None:
    [fact] = ledger((), said("Cancel order #W1234567."), 99, count)

    stored = TypeAdapter(Fact)
    assert stored.validate_json(stored.dump_json(fact)) == fact
    with pytest.raises(FrozenInstanceError):
        fact.seq = 2  # type: ignore[misc]


def test_a_newer_value_for_the_same_words_marks_the_older_one() -> None:
    records = said("The upload limit is 40 MB.", "Thanks.", "The upload limit is 60 MB.")

    found = facts(records)

    assert (found["40 MB"].until, found["60 MB"].until) == (3, 0)
    assert "40 MB (until 3)" in ledger_text(found.values())


def test_a_newer_value_marks_one_from_an_earlier_compaction() -> None:
    before = ledger((), said("The upload limit is 40 MB."), 99, count)

    after = ledger(before, said("The upload limit is 60 MB.", first=9), 99, count)

    assert [(fact.text, fact.until) for fact in after] == [("40 MB", 9), ("60 MB", 0)]


def test_a_value_that_is_stated_anew_holds_again() -> None:
    records = said(*(f"The upload limit is {size} MB." for size in (40, 60, 40)))

    found = facts(records)

    assert (found["40 MB"].until, found["60 MB"].until) == (0, 3)


def test_different_identifiers_in_the_same_words_replace_nothing() -> None:
    found = facts(said("Please cancel order #W1111111.", "Please cancel order #W2222222."))

    assert not any(fact.until for fact in found.values())


def test_what_the_user_said_and_calls_use_outlasts_what_tools_only_listed() -> None:
    listed = [{"name": f"thing {n}", "item_id": f"95234568{n:02}"} for n in range(40)]
    records = [
        *said("I want to return order #W1234567 soon."),
        called(2, "list_items", user_id="ann_lee_1234"),
        resulted(3, listed),
    ]

    kept = {fact.text for fact in ledger((), records, 60, count)}

    assert {"#W1234567", "ann_lee_1234"} <= kept


def test_nothing_new_changes_nothing() -> None:
    full = ledger((), said(*(f"Ticket TKT-{n:04} is for desk {n}." for n in range(40))), 200, count)

    again = full
    for _ in range(10):
        again = ledger(again, (), 200, count)

    assert again == full
    assert full


def test_facts_within_the_budget_survive_ten_compactions() -> None:
    carried: tuple[Fact, ...] = ()
    planted: list[str] = []
    for n in range(10):
        text = f"Ticket TKT-{n:04} of desk {n} is in /srv/desk/{n:04}.yaml, cost ${n}.50."
        carried = ledger(carried, said(text, first=n + 1), 400, count)
        planted += [f"TKT-{n:04}", f"/srv/desk/{n:04}.yaml", f"${n}.50"]

    assert count(ledger_text(carried)) <= 400
    assert [value for value in planted if value not in ledger_text(carried)] == []


def test_what_the_prose_states_is_not_shown_but_stays_in_the_ledger() -> None:
    stored = ledger((), said("Cancel order #W1234567 for ann_lee_1234 please."), 99, count)

    shown = beside("The user cancels #W1234567.", stored, 99, count)

    assert [fact.text for fact in shown] == ["ann_lee_1234"]
    assert len(stored) == 2


def test_part_of_a_longer_value_in_the_prose_does_not_count() -> None:
    stored = ledger((), said("Cancel order W123456 for me please."), 99, count)

    assert beside("It is about W1234567.", stored, 99, count) == stored


@given(
    texts=st.lists(st.text(max_size=200) | st.from_regex(r"[A-Z]{3}\d{3} costs \$\d\.\d\d")),
    budget=st.integers(0, 120),
)
def test_any_content_fits_the_budget_and_one_line_per_message(
    texts: list[str], budget: int
) -> None:
    found = ledger((), said(*texts), budget, count)

    assert count(ledger_text(found)) <= budget
    assert len(ledger_text(found).split("\n")) <= max(len(texts), 1)
    assert all(fact.kind in KINDS for fact in found)


@pytest.mark.parametrize("piece", ["x", "a/", "'\"", "1,", "a.b@", "- ", "1 Jan ", "a@b. "])
@pytest.mark.slow
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    assert_linear(
        lambda size: ledger((), said(piece * size, role="tool"), 0, count), size=10_000, factor=8
    )


@requires_data
def test_real_ledgers_are_bounded_and_carry_on() -> None:
    for session in sessions("tau", 20):
        records = list(enumerate((m for m in session["messages"] if m["role"] != "system"), 1))
        half = len(records) // 2
        first = ledger((), records[:half], 300, count)

        second = ledger(first, records[half:], 300, count)

        assert count(ledger_text(second)) <= 300
        assert ledger(second, (), 300, count) == second
