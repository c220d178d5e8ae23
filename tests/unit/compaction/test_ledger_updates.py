"""Facts of free speech that a newer statement made past."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turnmill.contract.names import Seq
from turnmill_worker.compaction.ledger.selection import Fact, ledger
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Units
from turnmill_worker.old_reading.updates import Told


def count(text: str) -> int:
    return len(text.split())


def said(*texts: str, first: int = 1) -> Units:
    return read_units(
        [(Seq(seq), {"role": "user", "content": text}) for seq, text in enumerate(texts, first)]
    )


def facts(units: Units) -> dict[str, Fact]:
    return {fact.text: fact for fact in ledger((), Told(units), 99, count)}


def after(earlier: Sequence[str], *newer: str, pool: bool) -> dict[str, int]:
    """Until when each fact holds once these were covered after those, which a pool may keep."""
    old, new = said(*earlier), said(*newer, first=9)
    before = ledger((), Told(old), 99, count)
    told = Told(old, new) if pool else Told(new)
    return {fact.text: fact.until for fact in ledger(before, told, 99, count)}


def test_a_newer_value_in_free_speech_marks_the_older_one() -> None:
    records = said(
        "The budget for the kitchen is $3,000.", "Noted.", "We raised the kitchen budget to $4,500."
    )

    found = facts(records)

    assert (found["$3,000"].until, found["$4,500"].until) == (3, 0)


@pytest.mark.parametrize("pool", [True, False])
def test_a_newer_value_in_free_speech_marks_one_from_an_earlier_compaction(*, pool: bool) -> None:
    earlier, newer = "The launch of the shop is on March 8.", "The launch is moved to March 22."

    assert after([earlier], newer, pool=pool) == {"March 8": 9, "March 22": 0}


def test_a_fact_is_read_as_it_was_said_where_the_pool_has_its_sentence() -> None:
    # Its four nearest words do not tell what the amount is of.
    earlier = "The budget, as Kim from the office in Oslo told me again on the phone, is $3,000."

    assert after([earlier], "The budget was raised to $4,500.", pool=True)["$3,000"] == 9


def test_what_one_tool_tells_anew_ends_no_fact() -> None:
    call = {"id": "a", "function": {"name": "find_gate", "arguments": '{"way": "out"}'}}
    old, new = (
        read_units(
            [
                (Seq(at), {"role": "assistant", "tool_calls": [call]}),
                (
                    Seq(at),
                    {"role": "tool", "tool_call_id": "a", "content": f'{{"gate": "{gate}"}}'},
                ),
            ]
        )
        for at, gate in ((1, "#B12"), (9, "#C14"))
    )
    before = ledger((), Told(old), 99, count)

    facts = ledger(before, Told(old, new), 99, count)

    assert Told(old, new).past
    assert [(fact.text, fact.until) for fact in facts] == [("#B12", 0), ("#C14", 0)]


def test_a_value_of_something_else_is_not_marked() -> None:
    records = said("Kim's deadline is March 3.", "Noted.", "Lee's deadline was moved to March 9.")

    assert not any(fact.until for fact in facts(records).values())
