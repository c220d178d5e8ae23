"""What a read's cut costs: it grows with what is cut, not with its square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from turnmill import Policy
from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.legality import violations
from turnmill.contract.names import Seq
from turnmill.contract.tail import TailTurn
from turnmill.projection import Projected, project
from turnmill.read_reply import bound

POLICY = Policy(max_tokens=2000)
RESULT = "a row of numbers: 17, 42, 99; " * 8


def calls(first: int, last: int) -> dict[str, Any]:
    """An assistant message with a call for each number."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for n in range(first, last)
        ],
    }


def result(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": RESULT}


def in_one_turn(steps: int) -> list[list[dict[str, Any]]]:
    """A conversation pushed as a single turn: many calls, each with its result."""
    turn: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(steps):
        turn += [calls(number, number + 1), result(number)]
    return [turn]


def in_one_batch(steps: int) -> list[list[dict[str, Any]]]:
    """Parallel calls, their results pushed one by one; the last is still awaited."""
    return [[calls(0, steps)], *([result(number)] for number in range(steps - 1))]


def projected(
    turns: Sequence[Sequence[JsonMessage]], *, pinned: bool = False
) -> tuple[Projected, int]:
    """The turns cut to the limit, and how many messages were counted on the way."""
    looked_at = 0

    def count(messages: Sequence[JsonMessage]) -> int:
        nonlocal looked_at
        looked_at += len(messages)
        return bound(messages)

    tail = [
        TailTurn(seq=Seq(seq), messages=tuple(turn), tokens=bound(turn), exact=False, pinned=pinned)
        for seq, turn in enumerate(turns, 1)
    ]
    cut = project("", StoredContext(), tail, POLICY.limits(0), count, fixed_tokens=3)
    return cut, looked_at


@pytest.mark.parametrize("shape", [in_one_turn, in_one_batch])
def test_the_cut_of_a_batch_too_large_for_any_limit_costs_in_proportion_to_it(shape: Any) -> None:
    small, cost = projected(shape(200))
    large, cost_of_more = projected(shape(800))

    for cut in (small, large):
        assert bound(cut.messages) <= cut.tokens <= POLICY.hard_limit
        assert cut.receipt is not None
    # Four times the calls: two steps more of a search, never sixteen times the work.
    assert cost_of_more < 6 * cost


@pytest.mark.parametrize("steps", [1, 2, 30, 31, 200])
def test_the_newest_answered_calls_stay_with_the_call_still_awaited(steps: int) -> None:
    cut, _ = projected(in_one_batch(steps))

    asked = [call["id"] for message in cut.messages for call in message.get("tool_calls", ())]
    assert asked == [f"c{number}" for number in range(steps - len(asked), steps)]
    answered = [m["tool_call_id"] for m in cut.messages if m["role"] == "tool"]
    assert answered == asked[:-1]
    assert violations(cut.messages) == []


@pytest.mark.parametrize("pins", [20, 60, 120, 800])
def test_of_more_pins_than_fit_the_newest_turn_stays_and_a_receipt_names_the_others(
    pins: int,
) -> None:
    said = [[{"role": "user", "content": f"Fact {n}: {RESULT}"}] for n in range(pins)]

    cut, _ = projected([*said, [{"role": "user", "content": "And now?"}]], pinned=True)

    assert bound(cut.messages) <= cut.tokens <= POLICY.hard_limit
    assert cut.messages[-1]["content"] == "And now?"
    assert cut.receipt is not None
    dropped = cut.receipt.turns
    assert dropped in (0, pins)
    assert len(cut.messages) == (pins - dropped) + bool(dropped) + 1


def test_what_an_earlier_read_found_in_the_same_turns_is_found_again() -> None:
    said = [
        [{"role": "user", "content": "Always answer in Italian. Then list the parcels of Anna."}],
        *(turn for at in range(40) for turn in ([calls(at, at + 1), result(at)],)),
    ]
    other = [
        [{"role": "user", "content": "Never name a price. Then count the parcels."}],
        *said[1:],
    ]

    for turns in (said, other, said):
        plain, _ = projected(turns)
        tail = [
            TailTurn(seq=Seq(seq), messages=turn, tokens=bound(turn), body=encode_json(turn))
            for seq, turn in enumerate(turns, 1)
        ]
        for _ in range(2):
            cut = project("", StoredContext(), tail, POLICY.limits(0), bound, fixed_tokens=3)

            assert cut == plain
            assert str(turns[0][0]["content"]).partition(".")[0] in str(cut.messages)
