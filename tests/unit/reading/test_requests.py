"""The request a session began with stands, and what the user added; as much as fits, whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from turnmill.contract.context import OpenRequest
from turnmill.contract.names import Seq
from turnmill.contract.render import requests_message
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.requests import (
    Asked,
    fitting,
    open_requests,
    shortened,
)

TASK = "Fix parse_header in http/head.py so that empty lines pass."
ADDED = "Write the changelog entry in the docs folder as well."

Messages = Sequence[dict[str, Any]]


def user(text: str) -> Messages:
    return ({"role": "user", "content": text},)


def answer(text: str = "Done.") -> Messages:
    return ({"role": "assistant", "content": text},)


def worked(number: int = 1) -> Messages:
    function = {"name": "look", "arguments": f'{{"at": {number}}}'}
    call = {"id": "c", "type": "function", "function": function}
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"line {number}"},
    )


def asked(*turns: Messages) -> list[Asked]:
    readings = Readings(len)
    return [Asked(at, own, readings.of_turn(Seq(at), own)) for at, own in enumerate(turns, 1)]


def found(*turns: Messages, stored: Sequence[OpenRequest] = (), begins: bool = True) -> list[int]:
    return [each.seq for each in open_requests(stored, asked(*turns), begins=begins)]


def test_at_work_the_first_request_stands_and_what_was_added() -> None:
    turns = [user(TASK), *map(worked, range(4)), user(ADDED), *map(worked, range(4))]

    assert found(*turns) == [1, 6]
    assert [each.first for each in open_requests((), asked(*turns), begins=True)] == [True, False]


@pytest.mark.parametrize("text", ["Go on.", "go on", "Yes.", "Weiter.", "继续。", TASK])
def test_what_says_nothing_new_adds_nothing(text: str) -> None:
    assert found(user(TASK), *map(worked, range(4)), user(text), *map(worked, range(4))) == [1]


def test_in_talk_only_the_first_and_the_newest_unanswered_one_stand() -> None:
    talk = [user(TASK), answer(), user("Where is the harbour of Bergen?"), answer("In Norway.")]

    assert found(*talk, user(ADDED)) == [1, 5]
    assert found(*talk, user(ADDED), answer(), user("Thanks.")) == [1]


# --- room ---


def entry(seq: int, text: str, *, first: bool = False) -> OpenRequest:
    return OpenRequest(seq=Seq(seq), text=text, first=first)


def test_requests_that_fit_stay_to_the_byte_and_all_together_keep_to_their_room() -> None:
    whole = [entry(1, TASK, first=True), entry(5, ADDED), entry(9, "line\n" * 80)]

    assert fitting(whole, 10_000, len) == tuple(whole)
    for room in range(0, 700, 50):
        kept = fitting(whole, room, len)
        assert not kept or len(str(requests_message(kept)["content"])) <= room + 64
        assert [each.seq for each in kept] == sorted(each.seq for each in kept)


# --- shortening ---

LINES = [f"Line {n} says something of its own." for n in range(60)]


SENTENCES = [f"The part with number {at} came from Lyon on Monday." for at in range(12)]


@pytest.mark.parametrize("before", ["", "Hello!\n"])
@pytest.mark.parametrize("behind", ["", "\nGoodbye!"])
@pytest.mark.parametrize("room", [110, 150, 300, 450])
def test_sentences_that_go_from_a_long_line_are_marked_wherever_they_stood(
    before: str, behind: str, room: int
) -> None:
    text = shortened(before + " ".join(SENTENCES) + behind, room, len)

    assert len(text) <= room
    assert [told(line) for line in lines_of(text)] == [len(" ".join(SENTENCES))]
    for less in range(room - 10, 100, -30):
        text = shortened(text, less, len)
        assert "left out] […" not in text
        assert all(told(line) == len(" ".join(SENTENCES)) for line in lines_of(text))


def test_a_long_line_that_stays_keeps_its_spaces() -> None:
    line = "  " + ".  ".join(f"The part with number {at} is from Lyon" for at in range(12)) + ".\r"

    text = shortened("\n".join([line, *LINES]), 1_000, len)

    assert text.startswith(f"{line}\n{LINES[0]}\n")


def lines_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if "Lyon" in line]


def told(line: str) -> int:
    """Characters of it and of what its marks say is gone."""
    marks = re.findall(r"\[… (\d+) characters left out\]", line)
    return len(re.sub(r"\[… [^\]]*\]", "", line)) + sum(map(int, marks))


@pytest.mark.parametrize("room", [120, 400, 1_000])
def test_shortened_it_keeps_whole_lines_from_both_ends_and_counts_the_others(room: int) -> None:
    text = shortened("\n".join(LINES), room, len)

    kept = [line for line in text.split("\n") if line in LINES]
    [mark] = [line for line in text.split("\n") if line not in LINES]
    assert len(text) <= room
    assert mark == f"[… {len(LINES) - len(kept)} lines left out]"
    assert kept[0] == LINES[0]
