"""Texts that a job shows in several places are counted once."""

from __future__ import annotations

from turnmill_worker.tokens import CountedOnce, TokenCounter


class Words(TokenCounter):
    """Counts words, and notes what it was asked."""

    basis = "words/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text.split())


def test_a_text_is_counted_once_however_often_it_is_shown() -> None:
    words = Words()
    counter = CountedOnce(words)

    counts = [counter.count(text) for text in ("one two", "", "one two", "")]

    assert counts == [2, 0, 2, 0]
    assert words.asked == ["one two", ""]
    assert counter.basis == "words/1"


def test_a_line_is_counted_once_where_no_token_reaches_over_its_end() -> None:
    class ByLines(Words):
        splits_lines = True

    words = ByLines()
    first, second, third = ("one " * 70 + "\n", "/two " * 70 + "\n", "three " * 70)

    counts = [CountedOnce(words).count(text) for text in (first + third, first + second + third)]

    assert counts == [140, 210]
    assert words.asked == [first, third, first + second]


def test_a_message_counts_as_its_text_does_elsewhere() -> None:
    words = Words()
    counter = CountedOnce(words)
    counter.count("three more words")

    tokens = counter.count_messages([{"role": "user", "content": "three more words"}])

    assert tokens == Words().count_messages([{"role": "user", "content": "three more words"}])
    assert words.asked.count("three more words") == 1
