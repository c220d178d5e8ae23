"""What an assistant says it does next is told by the call; what it found or promised is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill_worker.compaction.pool.standing import first_standings
from turnmill_worker.old_reading.messages import read_units

CALL = {
    "id": "c",
    "function": {"name": "view", "arguments": json.dumps({"path": "src/cli.pony", "line": 42})},
}


def standing(text: str, *, calls: bool = True) -> float:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [CALL]
    units = read_units([(1, message), (2, {"role": "tool", "tool_call_id": "c", "content": "ok"})])
    return next(first_standings(units.lines, units.units))


@pytest.mark.parametrize(
    "text",
    [
        "Let me try again.",
        "Now let me check the file:",
        "I'll look at line 42 of src/cli.pony.",
        "First, I will see if the file is there.",
        "Let’s open it.",
    ],
)
def test_an_announcement_beside_its_call_is_worth_little(text: str) -> None:
    assert standing(text) <= 0.2 * standing("The file has no parser.")
    assert standing(text, calls=False) == standing("The file has no parser.", calls=False)


@pytest.mark.parametrize(
    "text",
    [
        "I will not touch the tests.",
        "Let me use line 42, because line 7 is generated.",
        "I'll refund you $30 for the delay.",
        "The parser returns before it fills in the defaults.",
        "Please let me know which of the two you want.",
    ],
)
def test_what_says_more_than_the_call_keeps_its_worth(text: str) -> None:
    assert standing(text) == standing("The file has no parser.")
