"""What was said or tried again and again stands once, and says how often."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.old_reading.messages import read_units

Record = tuple[int, dict[str, Any]]
BUDGETS = [90, 2_000]
REFUSED = "ERROR:\nNo replacement was made, old_str `{}` is not in it: invalid."


def count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def edit(seq: int, path: str, old: str, answer: str) -> list[Record]:
    arguments = {"command": "replace", "path": path, "old_str": old, "new_str": "total = 0"}
    function = {"name": "editor", "arguments": json.dumps(arguments)}
    call = {"id": f"c{seq}", "type": "function", "function": function}
    return [
        (seq, {"role": "assistant", "content": None, "tool_calls": [call]}),
        (seq + 1, {"role": "tool", "tool_call_id": f"c{seq}", "content": answer}),
    ]


def tried(*olds: str, path: str = "src/totals.py") -> list[Record]:
    steps = [edit(2 * at + 1, path, old, REFUSED.format(old)) for at, old in enumerate(olds)]
    return [record for step in steps for record in step]


@pytest.mark.parametrize("budget", BUDGETS)
def test_of_edits_that_failed_alike_the_last_stands_and_counts_the_others(budget: int) -> None:
    text = Candidates(read_units(tried("total = 1", "total=1", "tot = 1"))).text(budget, count)

    [line] = [row for row in text.split("\n") if "replace" in row]
    assert line.startswith("5 call editor: replace src/totals.py old_str=tot = 1")
    assert line.endswith(" (2 more like it failed, since turn 1)")


def test_other_files_other_failures_and_what_was_done_each_stand_for_themselves() -> None:
    records = [
        *tried("a = 1"),
        *edit(11, "src/rows.py", "a = 1", REFUSED.format("a = 1")),
        *edit(13, "src/totals.py", "a = 1", "ERROR: permission denied"),
        *edit(15, "src/totals.py", "a = 2", "The file has been edited."),
        *edit(17, "src/totals.py", "a = 3", "The file has been edited."),
    ]

    text = Candidates(read_units(records)).text(2_000, count)

    assert len(text.split("\n")) == 5
    assert "more like it" not in text


def test_the_pool_keeps_each_try_so_that_the_next_summary_counts_them_all() -> None:
    before = Candidates(read_units(tried("b = 1", "b = 2")), pool_tokens=2_000)
    newer = read_units(edit(9, "src/totals.py", "b = 3", REFUSED.format("b = 3")))

    text = Candidates(newer, before.pool(400, count), pool_tokens=2_000).text(2_000, count)

    assert text.startswith("9 call editor: ")
    assert text.endswith(" (2 more like it failed, since turn 1)")


@pytest.mark.parametrize(
    ("said", "times"), [("The belt is full again, please look.", 1), ("Yes, do.", 4)]
)
def test_a_message_that_came_again_and_again_word_for_word_stands_once(
    said: str, times: int
) -> None:
    records = [(seq, {"role": "user", "content": said}) for seq in range(1, 5)]

    assert Candidates(read_units(records)).text(2_000, count).count(said) == times
