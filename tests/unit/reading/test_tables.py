"""Work is one row for each thing, and of a state only the newest stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnmill_worker.reading.passages import read
from turnmill_worker.reading.select import pooled, select
from turnmill_worker.reading.tables import Tables

# What an agent works through is one row for each thing, whatever its tools' results look like.

ASK = "At the end I need the total and the PO number of every invoice."
NUMBERS = range(10)


def count(text: str) -> int:
    return len(text) // 4 + 1


def total(n: int) -> str:
    return f"{100 + 7 * n}.50"


def po(n: int) -> str:
    return f"PO-{51000 + n}"


def name(n: int) -> str:
    return f"INV-{2000 + n}"


def called(n: int, tool: str = "get_invoice", **passed: object) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(passed or {"invoice": name(n)})}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"c{n}", "function": function}],
    }


def returned(n: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{n}", "content": content}


def tables_of(messages: Sequence[dict[str, Any]]) -> Tables:
    tables = Tables(count)
    for seq, message in enumerate(messages, 1):
        tables.add(read(seq, message, count))
    return tables


def lines_of(tables: Tables, budget: int = 2_000) -> list[str]:
    built = tables.build(10_000, budget)
    text = select(pooled(built.readings, budget), budget, count).text
    assert count(text) <= budget
    return text.split("\n")


def loop(result: Callable[[int], str], ask: str = ASK) -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": ask}]
    for n in NUMBERS:
        messages += [called(n), returned(n, result(n))]
    return messages


def has_rows(lines: Sequence[str], *of: Callable[[int], str]) -> bool:
    return all(any(all(each(n) in line for each in of) for line in lines) for n in NUMBERS)


def as_json(n: int) -> str:
    return json.dumps(
        {"invoice": name(n), "vendor": f"Vendor {n}", "total": total(n), "po_number": po(n)}
    )


def as_nested_json(n: int) -> str:
    amounts = {"net": {"value": "1"}, "total": {"value": total(n)}}
    return json.dumps(
        {"data": {"id": name(n), "amounts": amounts, "refs": {"po": {"number": po(n)}}}}
    )


def as_logfmt(n: int) -> str:
    return f"invoice={name(n)} total={total(n)} state=open po_number={po(n)}"


def as_prose(n: int) -> str:
    return (
        "The clerk looked twice. The road was wet. "
        f"For this one the total is {total(n)} and the PO number {po(n)}. Nobody else came by."
    )


@pytest.mark.parametrize(
    "result",
    [
        as_json,
        as_nested_json,
        as_logfmt,
        as_prose,
    ],
)
def test_a_call_and_its_result_are_one_row(result: Callable[[int], str]) -> None:
    lines = lines_of(tables_of(loop(result)))

    assert has_rows(lines, name, total, po)


def test_a_later_success_counts_and_not_the_failure_before() -> None:
    messages = loop(lambda n: as_json(n) if n % 2 else f"timeout for {name(n)} after 30 s")
    for n in range(0, 10, 2):
        messages += [called(n), returned(n, as_json(n))]
    lines = lines_of(tables_of(messages))

    assert has_rows(lines, name, total, po)
    assert not any("timeout" in line for line in lines)
    assert len(lines) == 1 + len(NUMBERS)


def test_what_the_user_corrects_stands_in_the_row() -> None:
    told = {"role": "user", "content": f"The total of {name(4)} is 999.00, not {total(4)}."}
    lines = lines_of(tables_of([*loop(as_json), told]))

    (row,) = [line for line in lines if name(4) in line]
    assert f"999.00 (turn 22, was {total(4)})" in row


def test_nothing_of_later_turns_is_left() -> None:
    later = {"role": "user", "content": "I want the secret vendor of INV-2001, LATE-99."}
    whole = tables_of([*loop(as_json), later])
    whole.up_to(11)

    assert whole.to_json() == tables_of(loop(as_json)[:11]).to_json()


def test_what_is_kept_is_bounded() -> None:
    messages = [{"role": "user", "content": ASK}]
    for n in range(400):
        messages += [called(n), returned(n, as_json(n))]
    tables = tables_of(messages)
    tables.trim(len(messages), tables.build(len(messages), 500).columns, 1_000)

    assert count(json.dumps(tables.to_json())) < 12_000
    lines = lines_of(tables, 500)
    assert name(399) in lines[-1]
    assert "earlier rows left out" in lines[0]
