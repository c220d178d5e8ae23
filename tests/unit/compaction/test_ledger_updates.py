"""Facts of free speech that a newer statement made past."""

from __future__ import annotations

from turnmill.contract.names import Seq
from turnmill_worker.compaction.ledger.selection import Fact, ledger
from turnmill_worker.reading.messages import read_units
from turnmill_worker.reading.units import Units


def count(text: str) -> int:
    return len(text.split())


def said(*texts: str, first: int = 1) -> Units:
    return read_units(
        [(Seq(seq), {"role": "user", "content": text}) for seq, text in enumerate(texts, first)]
    )


def facts(units: Units) -> dict[str, Fact]:
    return {fact.text: fact for fact in ledger((), units, 99, count)}


def test_a_newer_value_in_free_speech_marks_the_older_one() -> None:
    records = said(
        "The budget for the kitchen is $3,000.", "Noted.", "We raised the kitchen budget to $4,500."
    )

    found = facts(records)

    assert (found["$3,000"].until, found["$4,500"].until) == (3, 0)


def test_a_newer_value_in_free_speech_marks_one_from_an_earlier_compaction() -> None:
    before = ledger((), said("The launch of the shop is on March 8."), 99, count)

    after = ledger(before, said("The launch has been pushed back to March 22.", first=9), 99, count)

    assert [(fact.text, fact.until) for fact in after] == [("March 8", 9), ("March 22", 0)]


def test_a_value_of_something_else_is_not_marked() -> None:
    records = said("Kim's deadline is March 3.", "Noted.", "Lee's deadline was moved to March 9.")

    assert not any(fact.until for fact in facts(records).values())
