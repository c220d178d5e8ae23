"""Of many calls that are alike, a summary tells what the tool answered, not only what was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count
CAUSES = ("disk of db-{} full", "replica {} lagged 14 s", "cache misses at {} %", "host {} is down")


def asked_and_answered(answers: list[str], **more: str) -> list[tuple[int, dict[str, Any]]]:
    """One call for each answer, whose arguments differ in a number."""
    found: list[dict[str, Any]] = []
    for part, answer in enumerate(answers, 1):
        arguments = json.dumps({**more, "part": part})
        function = {"name": "read_log", "arguments": arguments}
        call = {"id": f"c{part}", "type": "function", "function": function}
        found.append({"role": "assistant", "content": None, "tool_calls": [call]})
        found.append({"role": "tool", "tool_call_id": f"c{part}", "content": answer})
    return list(enumerate(found, 1))


def test_a_short_answer_is_told_on_the_line_of_its_call() -> None:
    units = read_units(asked_and_answered(["db-7 is full.\n", "no trouble"], host="db-7"))

    assert [(unit.line, unit.text) for unit in units.units] == [
        (0, "host=db-7"),
        (0, "part=1 → db-7 is full."),
        (1, "host=db-7"),
        (1, "part=2 → no trouble"),
    ]


@pytest.mark.parametrize("answer", ['{"part": 1, "hosts": 3}', "One. " * 60, ""])
def test_a_record_a_long_answer_and_none_stay_apart(answer: str) -> None:
    units = read_units(asked_and_answered([answer]))

    assert units.units[0].text == "part=1"


@pytest.mark.parametrize("opening", ["", "2024-05-07 10:09 INFO started\n" * 12])
def test_a_summary_of_many_alike_calls_says_what_the_tool_answered(opening: str) -> None:
    causes = [CAUSES[part % 4].format(part) for part in range(40)]
    answers = [f"{opening}ERROR {cause} in part {part}." for part, cause in enumerate(causes, 1)]

    text = extract(asked_and_answered(answers), budget_tokens=300, count=COUNT)

    told = sum(cause in text for cause in causes)
    bare = [line for line in text.split("\n") if " call " in line and "→" not in line]
    assert told >= 8
    assert len(bare) <= told / 2


def test_what_calls_pass_on_is_not_taken_for_a_count() -> None:
    records = asked_and_answered(["ok"] * 3, order="#W2378156")
    text = extract(records, budget_tokens=60, count=COUNT)

    assert "#W2378156" in text


@pytest.mark.parametrize("records", [2, 9])
def test_what_all_records_of_a_list_were_asked_for_stands_before_any_of_them(records: int) -> None:
    listed = [
        {"flight": f"HAT{at}", "origin": "ATL", "status": "late", "seats": 7 * at, "price": 80 + at}
        for at in range(100, 100 + records)
    ]
    [(_, call), (_, _)] = asked_and_answered([""], origin="ATL")
    answer = {"role": "tool", "tool_call_id": "c1", "content": json.dumps(listed)}

    text = extract([(1, call), (2, answer)], budget_tokens=60, count=COUNT)

    [line] = [line for line in text.split("\n") if "result" in line]
    assert ": all: origin=ATL; flight=HAT" in line
