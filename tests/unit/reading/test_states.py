"""Of a list that a tool is handed whole each time, only the newest stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill_worker.reading.passages import read
from turnmill_worker.reading.states import States

STEPS = ["collect the modules", "run the tests", "write the report"]


def count(text: str) -> int:
    return len(text) // 4 + 1


def written(done: int, shape: str) -> Any:
    if shape == "objects":
        return [
            {"content": step, "status": "done" if at < done else "open"}
            for at, step in enumerate(STEPS)
        ]
    boxes = [f"- [{'x' if at < done else ' '}] {step}" for at, step in enumerate(STEPS)]
    return "\n".join(boxes) if shape == "text" else boxes


def states_of(shape: str, times: int = 3) -> States:
    states = States()
    for done in range(times):
        arguments = json.dumps({"plan": written(done, shape)})
        call = {"id": f"c{done}", "function": {"name": "set_plan", "arguments": arguments}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        states.add(read(2 * done + 1, message, count))
        result = {"role": "tool", "tool_call_id": f"c{done}", "content": "ok"}
        states.add(read(2 * done + 2, result, count))
    return states


@pytest.mark.parametrize("shape", ["objects", "text", "lines"])
def test_only_the_newest_state_stands(shape: str) -> None:
    states = states_of(shape)
    gone = states.settle(6, 500, count)
    text = states.standing(6)

    assert text.startswith("5 set_plan: collect the modules = ")
    assert text.count("collect the modules") == 1
    assert {seq for seq, _, _ in gone} == {1, 2, 3, 4, 5, 6}


def test_a_list_that_a_newer_turn_replaces_does_not_stand() -> None:
    states = states_of("objects")

    assert {seq for seq, _, _ in states.settle(4, 500, count)} == {1, 2, 3, 4}
    assert states.standing(4) == ""


def test_a_list_for_which_there_is_no_room_stays_where_it_is() -> None:
    states = states_of("objects")

    assert {seq for seq, _, _ in states.settle(6, 5, count)} == {1, 2, 3, 4}
    assert states.standing(6) == ""


def test_the_state_before_stands_again_once_later_turns_are_gone() -> None:
    states = states_of("objects")
    states.up_to(4)
    states.settle(4, 500, count)

    assert states.standing(4) == (
        "3 set_plan: collect the modules = done; run the tests = open; write the report = open"
    )


def test_states_are_the_same_once_stored_and_restored() -> None:
    states = states_of("text")
    restored = States.from_json(json.loads(json.dumps(states.to_json())))

    assert restored.settle(6, 500, count) == states.settle(6, 500, count)
    assert restored.standing(6) == states.standing(6)


def test_what_a_search_finds_again_is_no_state() -> None:
    states = States()
    found = [
        {"name": f"The Golden Lion {n}", "city": "Ulm", "phone": f"0731-{n}77"} for n in range(4)
    ]
    for seq in (1, 2):
        message = {
            "role": "tool",
            "tool_call_id": f"c{seq}",
            "name": "find",
            "content": json.dumps(found),
        }
        states.add(read(seq, message, count))

    assert states.settle(2, 500, count) == set()
