"""A unit of a text says something by itself."""

from __future__ import annotations

import pytest

from turnmill_worker.old_reading.sentences import UNIT_CHARS, sentences


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Is that covered? -> 2, 28", ("Is that covered? -> 2, 28",)),
        ("The sum? 42! Good.", ("The sum? 42!", "Good.")),
        ("Mr. Berg came. 5/36 = 0.138. Yes.", ("Mr. Berg came. 5/36 = 0.138.", "Yes.")),
        ("Do this. 1. Wash. 2. Dry.", ("Do this.", "1. Wash.", "2. Dry.")),
        ("Termin am 15. April um neun. Gut.", ("Termin am 15. April um neun.", "Gut.")),
        ("We sold 12. May I go?", ("We sold 12.", "May I go?")),
        ("64 gold. oh and no spiders pls. ok?", ("64 gold.", "oh and no spiders pls.", "ok?")),
        (
            "approx. five boxes etc. are in main.py. go",
            ("approx. five boxes etc. are in main.py.", "go"),
        ),
        ("It costs this:\n42", ("It costs this:", "42")),
        ("数量は？ １２。 はい。", ("数量は？ １２。", "はい。")),
    ],
)
def test_numbers_stay_with_the_sentence_before_them(text: str, units: tuple[str, ...]) -> None:
    assert sentences(text) == units


def test_the_number_at_the_end_of_a_long_sentence_is_no_unit() -> None:
    long = "word " * (UNIT_CHARS // 5) + "please? -> 3, 19"

    *_, last = sentences(long)

    assert last.endswith("please? -> 3, 19")
