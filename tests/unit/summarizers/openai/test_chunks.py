"""Every record is in exactly one chunk, in order, cut only where it may be cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.summarizers.openai.talks import COUNTER, assistant, call, numbered, result, user
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill_worker.summarizers.openai.prompts import Marks, chunks, entry_of

NONCE = "0123456789ab"
MARK = re.compile(rf"<<{NONCE} #(\d+) (\w+)(?: part (\d+) of (\d+))?>>\n")


def cut(records: Sequence[tuple[Seq, JsonMessage]], limit: int) -> list[str]:
    entries = [entry_of(seq, message, None) for seq, message in records]
    return chunks(records, entries, limit, Marks(NONCE).entry, COUNTER.count)


def read_back(found: Sequence[str]) -> list[tuple[int, str, str]]:
    """(seq, role, text) of all messages in the chunks, their parts put together again."""
    messages: list[tuple[int, str, str]] = []
    for chunk in found:
        marks = list(MARK.finditer(chunk))
        ends = [mark.start() - 1 for mark in marks[1:]] + [len(chunk)]
        for mark, end in zip(marks, ends, strict=True):
            text = chunk[mark.end() : end]
            if mark[3] and mark[3] != "1":
                text = messages.pop()[2] + text
            messages.append((int(mark[1]), mark[2], text))
    return messages


words = st.text(alphabet="ab \n7é漢", max_size=400)


@given(
    texts=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), words), max_size=12),
    limit=st.integers(min_value=64, max_value=400),
)
def test_all_of_every_message_is_in_one_chunk(texts: list[tuple[str, str]], limit: int) -> None:
    records = numbered(tuple({"role": role, "content": text} for role, text in texts))

    found = cut(records, limit)

    expected = [(seq, m["role"], entry_of(seq, m, None).text) for seq, m in records]
    assert read_back(found) == expected
    assert all(COUNTER.count(chunk) <= limit for chunk in found)


def test_what_fits_by_its_bytes_is_one_part_and_is_not_counted() -> None:
    records = numbered((user("Please look up order #W7710442."), assistant("It was sent.")))
    entries = [entry_of(seq, message, None) for seq, message in records]

    def count(text: str) -> int:
        raise AssertionError(text)

    found = chunks(records, entries, 10_000, Marks(NONCE).entry, count)

    assert found == cut(records, 120)
    assert chunks([], [], 10_000, Marks(NONCE).entry, count) == []


def test_a_call_stays_with_its_results() -> None:
    talk = [
        message
        for at in range(12)
        for message in (
            call(f"c{at}", "look", '{"shelf": 12}'),
            result(f"c{at}", "nothing but dust and a spare key " * 3),
            assistant("I looked and found a spare key."),
        )
    ]

    found = cut(numbered(tuple(talk)), 200)

    assert len(found) > 3
    assert not any(MARK.match(chunk)[2] == "tool" for chunk in found)  # type: ignore[index]


def test_messages_of_one_turn_stay_together() -> None:
    records = [
        (Seq(seq), message)
        for seq in range(1, 9)
        for message in (user("a question of some length " * 4), assistant("an answer " * 4))
    ]

    found = cut(records, 150)

    assert len(found) > 2
    assert all(MARK.match(chunk)[2] == "user" for chunk in found)  # type: ignore[index]


def test_a_message_over_the_window_is_split_and_says_so() -> None:
    text = "\n".join(f"line {at} of the log says that all is well" for at in range(300))

    found = cut(numbered((user("first"), user(text), user("last"))), 256)

    parts = [mark for chunk in found for mark in MARK.finditer(chunk) if mark[3]]
    assert len(parts) > 4
    assert [int(mark[3]) for mark in parts] == list(range(1, len(parts) + 1))
    assert {int(mark[4]) for mark in parts} == {len(parts)}
    assert read_back(found)[1][2] == text


@pytest.mark.parametrize("text", ["x" * 20_000, "漢" * 5_000, "\n" * 20_000, "🙂" * 5_000])
def test_text_without_words_is_split_too(text: str) -> None:
    found = cut(numbered((user(text),)), 256)

    assert all(COUNTER.count(chunk) <= 256 for chunk in found)
    assert read_back(found) == [(1, "user", text)]


def test_nothing_gives_no_chunk() -> None:
    assert cut((), 256) == []
