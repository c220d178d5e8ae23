"""Texts are searched by passages, which lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill_worker.reading.asking import LONGEST, asks, excerpt, split


@pytest.mark.parametrize("mark", ["\n\n", "\n", ". ", "。", " ", ""])
def test_a_long_text_is_cut_where_a_thought_ends(mark: str) -> None:
    found = split(f"word{mark}" * 500)

    assert all(passage.endswith(f"word{mark}") for passage in found)
    assert split("One.\n\nTwo.") == ["One.\n\nTwo."]


@given(st.text(alphabet="ab .\n?東", max_size=4_000))
def test_passages_leave_nothing_out_and_are_bounded(text: str) -> None:
    found = split(text)

    assert "".join(found) == text
    assert all(len(passage) <= LONGEST for passage in found)


def test_an_excerpt_says_where_the_text_goes_on() -> None:
    text = f"{'a' * 700}\n\n{'b' * 700}\n\n{'c' * 700}"

    assert excerpt(text, 0) == f"{'a' * 700} …"
    assert excerpt(text, 1) == f"… {'b' * 700} …"
    assert excerpt(text, 2) == f"… {'c' * 700}"
    assert excerpt("short", 0) == "short"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi. Which breed is your dog?", True),
        ("どの犬種ですか？", True),
        ("My dog is a corgi.", False),
        ("I moved the launch from March to the second week of April, is that fine?", False),
        ("", False),
    ],
)
def test_a_text_asks_when_most_of_it_is_the_question(text: str, expected: bool) -> None:  # noqa: FBT001
    assert asks(text) is expected
