"""What an agent works through is one row for each thing, whatever its tools' results look like."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnmill_worker.reading.passages import read
from turnmill_worker.reading.select import pooled, select
from turnmill_worker.reading.tables import Tables

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


def as_named_lines(n: int) -> str:
    return f"Invoice: {name(n)}\nTotal: {total(n)}\nSeen: yes\nPO number: {po(n)}"


def as_logfmt(n: int) -> str:
    return f"invoice={name(n)} total={total(n)} state=open po_number={po(n)}"


def as_last_line(n: int) -> str:
    noise = "\n".join(f"14:0{at}:00 DEBUG page {at} read in {at * 7} ms" for at in range(9))
    return f"{noise}\n14:10:00 {name(n)} done: total {total(n)}, PO number {po(n)}"


def as_prose(n: int) -> str:
    return (
        "The clerk looked twice. The road was wet. "
        f"For this one the total is {total(n)} and the PO number {po(n)}. Nobody else came by."
    )


def as_text_around_json(n: int) -> str:
    return f"Found it:\n```json\n{as_json(n)}\n```"


@pytest.mark.parametrize(
    "result",
    [
        as_json,
        as_nested_json,
        as_named_lines,
        as_logfmt,
        as_last_line,
        as_prose,
        as_text_around_json,
    ],
)
def test_a_call_and_its_result_are_one_row(result: Callable[[int], str]) -> None:
    lines = lines_of(tables_of(loop(result)))

    assert has_rows(lines, name, total, po)


def as_csv(rows: Sequence[int]) -> str:
    return "\n".join(
        ["no;vendor;total;PO number", *(f"{name(n)};V{n};{total(n)};{po(n)}" for n in rows)]
    )


def as_markdown(rows: Sequence[int]) -> str:
    cells = [f"| {name(n)} | V{n} | {total(n)} | {po(n)} |" for n in rows]
    return "\n".join(
        ["Here they are.", "", "| No | Vendor | Total | PO number |", "|---|---|---|---|", *cells]
    )


def as_aligned(rows: Sequence[int]) -> str:
    return "\n".join(
        [
            "NO        VENDOR  TOTAL     PO",
            *(f"{name(n):<10}V{n:<7}{total(n):<10}{po(n)}" for n in rows),
        ]
    )


def as_records(rows: Sequence[int]) -> str:
    found = [{"id": name(n), "sums": {"total": total(n)}, "po": po(n)} for n in rows]
    return json.dumps({"page": 1, "data": {"records": found}})


def as_keyed_records(rows: Sequence[int]) -> str:
    return json.dumps({name(n): {"total": total(n), "po": {"number": po(n)}} for n in rows})


def as_json_lines(rows: Sequence[int]) -> str:
    return "\n".join(as_json(n) for n in rows)


def as_log(rows: Sequence[int]) -> str:
    return "\n".join(f"07:1{n}:00 INFO seen no={name(n)} total={total(n)} po={po(n)}" for n in rows)


@pytest.mark.parametrize(
    "result",
    [as_csv, as_markdown, as_aligned, as_records, as_keyed_records, as_json_lines, as_log],
)
def test_each_record_of_a_result_is_a_row(result: Callable[[Sequence[int]], str]) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": ASK}]
    for n in range(0, 10, 2):
        messages += [called(n, "list", page=n // 2 + 1), returned(n, result([n, n + 1]))]

    assert has_rows(lines_of(tables_of(messages)), name, total, po)


def test_what_a_search_lists_is_no_work() -> None:
    messages = [
        {"role": "user", "content": "Which invoice is the oldest?"},
        called(1, "search", query="oldest"),
        returned(1, as_records(NUMBERS)),
    ]

    assert lines_of(tables_of(messages)) == [""]


def test_a_later_success_counts_and_not_the_failure_before() -> None:
    messages = loop(lambda n: as_json(n) if n % 2 else f"timeout for {name(n)} after 30 s")
    for n in range(0, 10, 2):
        messages += [called(n), returned(n, as_json(n))]
    lines = lines_of(tables_of(messages))

    assert has_rows(lines, name, total, po)
    assert not any("timeout" in line for line in lines)
    assert len(lines) == 1 + len(NUMBERS)


def test_a_later_failure_does_not_take_what_was_found() -> None:
    messages = [*loop(as_json), called(3), returned(3, json.dumps({"error": "busy"}))]

    assert has_rows(lines_of(tables_of(messages)), name, total, po)


def test_things_may_be_named_by_plain_words_in_any_script() -> None:
    towns = ["佐倉", "銚子", "成田", "柏原", "浦安", "館山", "野田", "松戸", "市原", "勝浦"]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "各店の売上と在庫を最後に教えてください。"}
    ]
    for n, town in enumerate(towns):
        messages += [
            called(n, "店舗照会", 店舗=town),
            returned(
                n, json.dumps({"店舗": town, "売上": total(n), "電話": "1", "在庫": f"{n}箱"})
            ),
        ]
    lines = lines_of(tables_of(messages))

    assert all(
        any(town in line and f"{n}箱" in line for line in lines) for n, town in enumerate(towns)
    )


def test_a_verdict_said_after_the_result_stands_in_the_row() -> None:
    messages = [{"role": "user", "content": "Judge these invoices."}]
    for n in NUMBERS:
        messages += [
            called(n),
            returned(n, as_json(n)),
            {"role": "assistant", "content": f"{name(n)}: duplicate of K-{n}77."},
        ]

    assert has_rows(lines_of(tables_of(messages)), name, lambda n: f"duplicate of K-{n}77")


def test_what_the_user_corrects_stands_in_the_row() -> None:
    told = {"role": "user", "content": f"The total of {name(4)} is 999.00, not {total(4)}."}
    lines = lines_of(tables_of([*loop(as_json), told]))

    (row,) = [line for line in lines if name(4) in line]
    assert f"999.00 (turn 22, was {total(4)})" in row


def test_a_later_message_adds_to_what_is_asked_for() -> None:
    lines = lines_of(tables_of(loop(as_json)), 110)
    assert not any("Vendor 9" in line for line in lines)

    more = [*loop(as_json), {"role": "user", "content": "I need the vendor of every invoice, too."}]
    assert any("Vendor 9" in line and po(9) in line for line in lines_of(tables_of(more), 130))


def test_what_no_longer_holds_is_not_asked_for() -> None:
    tables = tables_of(loop(as_json))
    header = tables.build(100, 120, {ASK}).readings[0].who

    assert "po_number" not in header or "vendor" in header


def test_the_newest_rows_stand_and_the_others_are_counted() -> None:
    lines = lines_of(tables_of(loop(as_json)), 90)

    rows = [line for line in lines if "INV-" in line]
    assert f"({10 - len(rows)} earlier rows left out)" in lines[0]
    assert [name(n) in row for n, row in zip(range(10 - len(rows), 10), rows, strict=True)]


def test_many_narrow_rows_come_before_few_wide_ones() -> None:
    wide = lambda n: json.dumps({**json.loads(as_json(n)), "memo": f"memo {n} " * 12})  # noqa: E731
    lines = lines_of(tables_of(loop(wide)), 160)

    assert has_rows(lines, name, total, po)
    assert not any("memo" in line for line in lines)


def test_tables_are_the_same_once_stored_and_restored() -> None:
    tables = tables_of(loop(as_json))
    stored = json.loads(json.dumps(tables.to_json()))

    assert lines_of(Tables.from_json(stored, count)) == lines_of(tables)


def test_a_result_is_found_by_its_call_after_both_were_apart() -> None:
    first, last = loop(as_json)[:-1], returned(9, as_json(9))
    tables = Tables.from_json(json.loads(json.dumps(tables_of(first).to_json())), count)
    tables.add(read(21, last, count))

    assert has_rows(lines_of(tables), name, total, po)


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


def test_a_thing_of_which_only_another_column_is_known_shows_that() -> None:
    def result(n: int) -> str:
        if n % 5:
            return as_json(n)
        return json.dumps({"invoice": name(n), "kind": "credit", "total_refunded": total(n)})

    assert has_rows(lines_of(tables_of(loop(result)), 190), name, total)


def test_columns_that_take_the_same_values_in_another_shape_are_worth_the_same() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "I need the grade of every plot."}
    ]
    for n in range(30):
        grade = {"grade": "ABC"[n % 3]} if n < 15 else {"class": "ABC"[n % 3]}
        found = (
            {"plot": {"name": f"Plot {n} East"}} if n < 15 else {"id": {"label": f"Lot {n} West"}}
        )
        listed = [{**found, "hands": n, "worth": n * 3, "state": grade}]
        messages += [called(n, "list", page=n), returned(n, json.dumps({"rows": listed}))]
    headers = [own.who for own in tables_of(messages).build(100, 400).readings]

    assert sorted(each.split(" | ")[1] for each in headers) == ["state.class", "state.grade"]
