"""The ledger shows facts somebody would look up: whole words, whose they are, no bare words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill_worker.compaction.ledger.selection import beside, ledger, ledger_text
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count


def shown(*messages: dict[str, Any], prose: str = "") -> str:
    facts = ledger((), Told(read_units(list(enumerate(messages, 1)))), 1_000, COUNT)
    return ledger_text(beside(prose, facts, 1_000, COUNT))


def test_a_plain_word_that_only_the_assistant_said_and_once_is_no_fact() -> None:
    said = "The `src` directory contains several subdirectories, including `libponyrt`."

    assert shown({"role": "assistant", "content": said}) == ""


def test_a_plain_word_somebody_came_back_to_is_one() -> None:
    said = {"role": "assistant", "content": "The defaults are filled in by `CommandParser`."}
    again = {"role": "user", "content": "Then change CommandParser, and nothing else."}

    assert "CommandParser" in shown(said, again)


@pytest.mark.parametrize(
    "advice", ["Use a try-catch block.", "Stop after 10 minutes.", "Some use Node.js for it."]
)
def test_words_and_counts_of_advice_that_only_the_assistant_gave_are_none(advice: str) -> None:
    assert shown({"role": "assistant", "content": advice}) == ""


def test_how_long_a_file_is_is_none() -> None:
    told = {"role": "tool", "tool_call_id": "c", "content": "[File: shop.py (34 lines total)]"}

    assert "lines" not in shown(told)


@pytest.mark.parametrize("word", ["TODO", "CORS", "UX"])
def test_an_abbreviation_the_user_said_once_is_no_fact(word: str) -> None:
    once = {"role": "user", "content": f"Please help me to mend the {word} part of the display."}
    again = {"role": "user", "content": f"Did you see to {word}?"}

    assert shown(once) == ""
    assert word in shown(once, again)


def test_an_identifier_with_a_digit_is_one_however_rarely_it_is_said() -> None:
    assert "BX7731" in shown({"role": "assistant", "content": "Your parcel is now BX7731."})


def test_an_error_ends_with_a_whole_word_so_that_the_prose_is_seen_to_state_it() -> None:
    error = f"ERROR: no replacement was made, {'old text ' * 13}did not appear verbatim in it."
    failed = {"role": "tool", "tool_call_id": "c", "content": error}

    alone, stated = shown(failed), shown(failed, prose=f"1 result: {error}")

    assert alone.rsplit(" ", 1)[-1] in error.split()
    assert stated == ""


def test_an_error_begins_where_its_line_does() -> None:
    opening = "Your edit has introduced new syntax errors in the file that you have open now. "
    answer = f"{opening}\nE999 SyntaxError: unmatched ')'"

    text = shown({"role": "tool", "tool_call_id": "c", "content": answer})

    assert "result: E999 SyntaxError: unmatched ')'" in text


def test_what_a_list_holds_is_told_by_the_number_of_each_record() -> None:
    flights = [{"flight_number": f"HAT{n}", "price": n * 7} for n in (214, 305)]
    answer = {"role": "tool", "tool_call_id": "c", "content": json.dumps({"flights": flights})}

    text = shown(answer)

    assert "HAT214: price 1498" in text
    assert "HAT305: price 2135" in text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "The total number of possible outcomes is 6.5, so there are 8 ms left.",
            "1 user: total number of possible outcomes is 6.5; 8 ms left",
        ),
        ("I want 2 rooms, and **Price:** $295, $207 or $216 would do.", "Price $295, $207, $216"),
        ("We improved to 85% of all problems within 2 weeks.", "problems within 2 weeks"),
        ("Come back ideally 5–6 days after that.", "Come back ideally 5–6 days"),
        ("The odds are 3/6, which simplifies to 1/2.", "odds are 3/6; simplifies to 1/2"),
    ],
)
def test_a_value_stands_in_the_words_of_its_clause_as_they_were_said(said: str, told: str) -> None:
    assert told in shown({"role": "user", "content": said})


def test_an_error_that_an_assistant_only_speaks_of_is_no_error_line() -> None:
    said = "The script raised an AttributeError, as the issue says, for want of an attribute."

    assert "The script raised" not in shown({"role": "assistant", "content": said})
