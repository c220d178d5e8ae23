"""A record's fields are told with what the record is called, and with what it hangs in."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from turnmill_worker.compaction.ledger.selection import ledger
from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates import Told, superseded


def count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def returned(*records: object) -> Units:
    """What a tool answered, asked once for each record."""
    found: list[tuple[int, dict[str, Any]]] = []
    for seq, record in enumerate(records, 1):
        function = {"name": "get_booking", "arguments": json.dumps({"booking": f"B{seq}"})}
        call = {"id": "c", "type": "function", "function": function}
        found.append((seq, {"role": "assistant", "content": None, "tool_calls": [call]}))
        answer = {"role": "tool", "tool_call_id": "c", "content": json.dumps(record)}
        found.append((seq, answer))
    return read_units(found)


def booking(name: str, card: str, *amounts: int) -> dict[str, Any]:
    return {
        "booking_id": name,
        "cabin": "economy",
        "payments": [{"payment_id": f"{card}{at}", "amount": a} for at, a in enumerate(amounts)],
    }


TRAINS = [
    {"train_number": f"ICE{n}", "leaves": f"{n % 24:02}:15", "seats": n % 7, "price": n * 3}
    for n in range(120, 150)
]


@pytest.mark.parametrize("budget", [60, 120, 200])
def test_no_field_of_one_record_among_many_stands_without_its_number(budget: int) -> None:
    text = Candidates(returned(TRAINS)).text(budget, count)

    records = text.partition(" result")[2].partition(": ")[2].split(" | ")
    assert records
    assert all(record.startswith("train_number=ICE") for record in records)


@pytest.mark.parametrize("budget", [150, 200, 250])
def test_what_hangs_in_a_record_is_told_with_its_identifier(budget: int) -> None:
    units = returned(*(booking(f"QX{n}71", f"card_{n}", n * 1007, n * 103) for n in range(1, 9)))

    lines = Candidates(units).text(budget, count).split("\n")

    paid = [line for line in lines if "payments:" in line]
    assert paid
    assert all("booking_id=QX" in line for line in paid)


def test_the_pool_keeps_the_number_with_the_field() -> None:
    candidates = Candidates(returned(TRAINS), pool_tokens=100)

    told = [line for line in candidates.pool(60, count) if line.source is Source.RESULT]

    assert told
    assert all(group.texts[0].startswith("train_number=") for line in told for group in line.groups)


def test_what_a_card_paid_for_one_booking_is_not_replaced_by_what_it_paid_for_another() -> None:
    units = returned(booking("QX171", "card_", 650), booking("QX271", "card_", 90))

    assert superseded(units) == {}
    assert not any(fact.until for fact in ledger((), Told(units), 99, count))


def test_what_a_card_paid_for_the_same_booking_is() -> None:
    units = returned(booking("QX171", "card_", 650), booking("QX171", "card_", 90))

    [(past, _)] = superseded(units).items()
    assert units.units[past].text == "amount=650"


REPORT = "Here are your balances:\n\n- Gift cards: $327\n- Certificates: $1,000\n\nShall I go on?"


def test_a_text_within_a_record_is_told_by_its_sentences_under_its_key() -> None:
    reply = json.dumps({"to": "user", "message": REPORT})

    text = Candidates(read_units([(4, {"role": "assistant", "content": reply})])).text(99, count)

    assert text == (
        "4 assistant: to=user; message: Here are your balances: - Gift cards: $327 "
        "- Certificates: $1,000 Shall I go on?"
    )


def test_code_within_a_record_is_no_text() -> None:
    code = "def total(rows):\n    return sum(rows)\n\nprint(total([1, 2]))\n"
    found = read_units([(4, {"role": "tool", "content": json.dumps({"file": code, "size": 61})})])

    assert found.units[0].text.startswith("file=def total(rows): return sum(rows)")


def test_a_long_answer_counts_more_where_it_tells_what_tools_returned() -> None:
    said = " ".join(f"Card {n} has ${n}." for n in range(30))
    answer = (2, {"role": "assistant", "content": said})
    result = (1, {"role": "tool", "content": '{"cards": 30}'})

    alone, told = read_units([answer]), read_units([result, answer])

    assert min(first_standings(told.lines, told.units)) > max(
        first_standings(alone.lines, alone.units)
    )


def test_the_more_an_assistant_says_in_json_the_less_each_of_its_fields_counts() -> None:
    """As in prose: what is asked of the user in twenty fields must not outweigh the answers."""

    def least(fields: int) -> float:
        answer = json.dumps({f"field_{at}": f"Please tell me item {at}." for at in range(fields)})
        told = read_units([(1, {"role": "assistant", "content": answer})])
        return min(first_standings(told.lines, told.units))

    assert least(20) < least(10) < least(5) == 1.0
