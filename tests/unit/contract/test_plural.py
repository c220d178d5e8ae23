"""One of a thing is not told as several of it."""

from __future__ import annotations

import pytest

from turnmill.contract.context import Receipt
from turnmill.contract.names import Seq
from turnmill.contract.plural import count
from turnmill.contract.render import receipt_text
from turnmill.contract.trajectory import LostTurns


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (1, "turn", "1 turn"),
        (0, "turn", "0 turns"),
        (1200, "key", "1,200 keys"),
        (2, "memory", "2 memories"),
    ],
)
def test_a_number_of_things_is_told_in_words(number: int, noun: str, told: str) -> None:
    assert count(number, noun) == told


def test_a_receipt_for_one_turn_names_one_turn() -> None:
    one = Receipt(by="projection", first_seq=3, last_seq=3, turns=1, tokens=1)
    more = Receipt(by="projection", first_seq=3, last_seq=4, turns=2, tokens=4000)

    assert receipt_text(one) == "[Turn 3 left out to fit: 1 turn, 1 token]"
    assert receipt_text(more) == "[Turns 3-4 left out to fit: 2 turns, 4000 tokens]"


def test_what_redis_lost_is_told_as_one_or_as_several() -> None:
    one = LostTurns(branch=1, turns=1, first_seq=Seq(4), last_seq=Seq(4), compactions=0)
    none = LostTurns(branch=2, turns=0, first_seq=Seq(0), last_seq=Seq(0), compactions=2)

    assert str(one) == "1 turn (seq 4 to 4) of a state that Redis lost is kept as branch 1"
    assert str(none) == "2 compactions of a state that Redis lost are kept as branch 2"
