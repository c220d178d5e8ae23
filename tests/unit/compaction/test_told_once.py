"""What lines and records share is told once, and what people said beside tools as they said it."""

from __future__ import annotations

import json
import re
from typing import Any

from turnmill_worker.compaction.ledger.selection import ledger, ledger_text
from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.compaction.pool.heads import heads_of
from turnmill_worker.compaction.pool.standing import ANNOUNCED, first_standings
from turnmill_worker.old_reading.earlier_summary import add_previous
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count
Record = tuple[int, dict[str, Any]]


def asked(seq: int, name: str, answer: object, **arguments: str) -> list[Record]:
    """A call of a tool, and what it returned."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "c", "type": "function", "function": function}
    return [
        (seq, {"role": "assistant", "content": None, "tool_calls": [call]}),
        (seq + 1, {"role": "tool", "tool_call_id": "c", "content": json.dumps(answer)}),
    ]


def leg(number: str, origin: str, destination: str, price: int) -> dict[str, Any]:
    return {"flight_number": number, "origin": origin, "destination": destination, "price": price}


BOOKING = {
    "booking_id": "QX171",
    "flights": [leg("HAT1", "JFK", "ATL", 62), leg("HAT2", "A", "B", 1)],
}
ROUTES = [
    [leg("HAT101", "JFK", "ATL", 120), leg("HAT102", "ATL", "SEA", 80)],
    [leg("HAT103", "JFK", "ORD", 95), leg("HAT104", "ORD", "SEA", 70)],
]


def test_a_tool_and_a_label_are_told_once_for_what_follows() -> None:
    records = [
        *asked(1, "get_booking", BOOKING, booking="QX171"),
        *asked(3, "get_booking", BOOKING),
    ]

    lines = Candidates(read_units(records)).text(400, COUNT).split("\n")

    assert lines[0] == "1 call get_booking: booking=QX171"
    assert lines[1] == (
        "2 result: booking_id=QX171; "
        "flights: flight_number=HAT1 origin=JFK destination=ATL price=62"
        " | flight_number=HAT2 origin=A destination=B price=1"
    )
    assert lines[2] == "3 call: ()"


def test_what_is_told_once_is_read_back_for_each() -> None:
    units = read_units(asked(1, "get_booking", BOOKING, booking="QX171"))
    back = Units([], [])

    add_previous(back, Candidates(units).text(400, COUNT))

    assert [(line.seq, line.source, line.name) for line in back.lines] == [
        (1, Source.CALL, "get_booking"),
        (2, Source.RESULT, "get_booking"),
    ]
    assert [(one.group, one.label, one.text) for one in back.units[2:]] == [
        (one.group, one.label, one.text) for one in units.units[2:]
    ]


def test_lists_of_records_in_a_list_are_told_apart_by_numbers_behind_what_was_asked_for() -> None:
    records = asked(1, "find_routes", ROUTES, origin="JFK", destination="SEA")

    text = Candidates(read_units(records)).text(400, COUNT)

    assert text.split("\n")[1] == (
        "2 result: all: origin=JFK destination=SEA; "
        "1: flight_number=HAT101 destination=ATL price=120"
        " | flight_number=HAT102 origin=ATL price=80; "
        "2: flight_number=HAT103 destination=ORD price=95"
        " | flight_number=HAT104 origin=ORD price=70"
    )


def test_what_a_list_in_a_record_shares_is_not_told_of_other_lists() -> None:
    booking = {**BOOKING, "flights": [leg("HAT1", "JFK", "ATL", 62), leg("HAT2", "JFK", "ATL", 7)]}
    units = read_units(asked(1, "book", {**booking, "guests": [{"bags": 5}]}, origin="JFK"))

    text, heads = Candidates(units).text(400, COUNT), heads_of(units.lines, units.units)

    assert "; all flights: origin=JFK; flights: flight_number=HAT1 destination=ATL" in text
    told = {
        one.text: [units.units[at].text for at in heads[place]]
        for place, one in enumerate(units.units)
        if place in heads
    }
    assert told["price=62"] == ["origin=JFK", "booking_id=QX171", "flight_number=HAT1"]
    assert told["bags=5"] == ["booking_id=QX171"]


def test_what_is_told_of_one_of_several_people_stands_behind_a_name() -> None:
    guests = [
        {"first_name": name, "last_name": "Okoye", "born": f"19{year}-03-0{year % 9 + 1}"}
        for name, year in (("Nnamdi", 61), ("Ada", 84), ("Chidi", 88))
    ]
    records = asked(1, "get_booking", {**BOOKING, "guests": guests})
    budgets = range(20, 130, 3)

    texts = [Candidates(read_units(records)).text(most, COUNT) for most in budgets]

    told = [part for text in texts for part in re.split("; | [|] ", text) if "born=" in part]
    assert told
    assert all("name=" in part for part in told)


def test_what_is_passed_to_a_tool_is_told_together() -> None:
    units = read_units(
        asked(2, "find_routes", [], origin="JFK", destination="SEA", day="2031-04-09")
    )
    heads = heads_of(units.lines, units.units)

    passed = [at for at, unit in enumerate(units.units) if unit.body_at]

    assert len(passed) == 3
    assert all(sorted((at, *heads[at])) == passed for at in passed)


def test_a_number_in_a_list_is_a_fact_of_what_it_hangs_in_or_of_what_listed_it() -> None:
    records = [*asked(1, "get_booking", BOOKING), *asked(3, "find_routes", ROUTES)]

    facts = ledger((), Told(read_units(records)), 400, COUNT)

    text = ledger_text(facts)
    assert "QX171: flight_number HAT1" in text
    assert "find_routes: flight_number HAT101" in text


def said(text: str) -> list[Record]:
    """What an assistant says, and what it calls with it."""
    [(_, call), answer] = asked(2, "get_booking", BOOKING, booking="QX171")
    return [(2, {**call, "content": text}), answer]


def test_beside_tools_sentences_stay_as_they_were_said() -> None:
    sentence = "I notice that the issue is related to the handling of a parent's options."
    talk = [
        (at, {"role": ("user", "assistant")[at % 2], "content": f"This is number {at}. {sentence}"})
        for at in range(10, 20)
    ]
    used = [
        pair for at in range(20, 40) for pair in asked(at, "get_booking", ROUTES, booking="QX171")
    ]

    beside = Candidates(read_units([*talk[:3], *used])).text(900, COUNT)
    alone = Candidates(read_units(talk)).text(150, COUNT)

    assert sentence in beside
    assert "issue related" in alone


def test_an_announced_call_that_ends_with_instead_names_no_alternative() -> None:
    open_ended = read_units(said("Let me look at the booking instead."))
    named = read_units(said("Let me look at the booking instead of the hotel."))

    assert next(iter(first_standings(open_ended.lines, open_ended.units))) == ANNOUNCED
    assert next(iter(first_standings(named.lines, named.units))) == 1.0
