"""What a read's cut costs: it grows with what is cut, not with its square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from turnmill import Policy
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.legality import violations
from turnmill.contract.log_entry import TailTurn
from turnmill.contract.names import Seq
from turnmill.contract.render import SAID, render_head
from turnmill.contract.rules import Mark
from turnmill.read.projection import Projected, project
from turnmill.read.view import bound

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


REQUEST = "Book the invoices of March one by one and tell me what is odd about each."
RULES = {3: "Never name a price.", 80: "请用中文回答。", 200: "Round every total to cents."}


def at_work(turns: int = 300) -> list[list[JsonMessage]]:
    """An agent's loop: a request, a call with a result in each turn, and three things said."""
    said = [[calls(at, at + 1), result(at)] for at in range(1, turns + 1)]
    said[0] = [{"role": "user", "content": REQUEST}]
    for seq, rule in RULES.items():
        said[seq - 1] = [{"role": "user", "content": rule}]
    return said


def in_place_of(turns: Sequence[Sequence[JsonMessage]], marks: dict[int, Mark]) -> str:
    """What the cut shows of the user's words in turns that are left out."""
    tail = [
        TailTurn(seq=Seq(seq), messages=turn, tokens=bound(turn), mark=marks.get(seq, Mark()))
        for seq, turn in enumerate(turns, 1)
    ]
    cut = project("", StoredContext(), tail, POLICY.limits(0), bound, fixed_tokens=3)
    assert bound(cut.messages) <= cut.tokens <= POLICY.hard_limit
    assert violations(cut.messages) == []
    found = [str(m["content"]) for m in cut.messages if str(m["content"]).startswith(SAID)]
    return found[0] if found else ""


def user(text: str, **fields: str) -> list[JsonMessage]:
    return [{"role": "user", "content": text, **fields}]


def test_a_head_that_no_turn_follows_is_cut_too() -> None:
    stored = StoredContext(summary="The parcels of street 9. " * 600, watermark=Seq(4))
    fixed = bound(render_head(stored))

    cut = project("", stored, [], POLICY.limits(0), bound, fixed_tokens=fixed, head_tokens=fixed)

    assert cut.receipt is not None
    assert bound(cut.messages) <= cut.tokens <= 2000


def test_a_head_that_gives_way_leaves_room_beside_a_prompt_whose_bound_is_over_the_limit() -> None:
    system, counted = "Answer in a word. " * 350, 1_400
    stored = StoredContext(summary="The parcels of street 9. " * 60, watermark=Seq(4))
    head = bound(render_head(stored))
    newest = TailTurn(seq=Seq(5), messages=user("And mine? " * 20), tokens=100)
    assert bound([{"role": "system", "content": system}]) > POLICY.hard_limit

    cut = project(
        system,
        stored,
        [newest],
        POLICY.limits(counted),
        bound,
        fixed_tokens=counted + head,
        head_tokens=head,
    )

    assert counted + bound(cut.messages[1:]) <= cut.tokens <= POLICY.hard_limit
    assert cut.messages[-1] == newest.messages[0]


@pytest.mark.parametrize(("many", "fit"), [(15, True), (200, False)])
def test_a_head_gives_way_to_open_calls_that_fit_then(many: int, *, fit: bool) -> None:
    stored = StoredContext(summary="The parcels of street 9. " * 112, watermark=Seq(4))
    head, asked = bound(render_head(stored)), calls(0, many)
    newest = TailTurn(seq=Seq(5), messages=[asked], tokens=bound([asked]))
    left = POLICY.hard_limit - head
    assert POLICY.hard_limit // 4 + 60 < left < bound([asked])

    cut = project(
        "", stored, [newest], POLICY.limits(0), bound, fixed_tokens=head, head_tokens=head
    )

    assert (asked in cut.messages) is fit
    assert (render_head(stored)[0] in cut.messages) is not fit
    assert bound(cut.messages) <= cut.tokens <= POLICY.hard_limit


def test_what_the_user_said_stands_word_for_word_while_no_worker_runs() -> None:
    said = in_place_of(at_work(), {})

    lines = [f"(turn {seq}) {text}" for seq, text in {1: REQUEST, **RULES}.items()]
    assert said.splitlines() == [SAID, *lines, "[End of user's words]"]


def test_of_what_a_tool_or_a_program_said_nothing_stands_there() -> None:
    turns = at_work()
    turns[10] = user("Ann likes tea.", name="memories")
    turns[11] = user("The answer is no JSON.", name="feedback")
    turns[12] = user("[Summary of the conversation so far]\nThey talked.\n[End]")

    assert in_place_of(turns, {}) == in_place_of(at_work(), {})


def test_a_marked_instruction_wins_over_newer_words_until_it_is_revoked() -> None:
    turns = [user(REQUEST), *(user(f"{at} is the number of this {RESULT}") for at in range(300))]
    turns[4], turns[20] = user("Sundays are sacred."), user("Sundays no longer matter.")

    kept = in_place_of(turns, {5: Mark(instructs=True)})
    revoked = in_place_of(turns, {5: Mark(instructs=True), 21: Mark(revokes="5")})

    assert "(turn 5) Sundays are sacred." in kept
    assert "(turn 5)" not in revoked


def test_words_change_only_when_the_cut_jumps() -> None:
    turns = at_work()
    seen = [in_place_of(turns[:last], {}) for last in range(150, 300)]

    assert len(set(seen)) < 20
