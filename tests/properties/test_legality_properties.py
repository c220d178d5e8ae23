"""What holds of repaired conversations and of the places where a log may be cut."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, conversations, legal_conversations, turns
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import CallTracker, repair, segments, violations
from turnmill.dialects.legality import violations as violations_in

chaos = st.lists(turns(3), max_size=12) | conversations(3)


def flat(said: list[GivenTurn]) -> list[JsonMessage]:
    return [message for turn in said for message in turn.messages]


@settings(max_examples=200)
@given(chaos)
def test_a_repair_is_legal_final_drops_nothing_and_is_the_same_turn_by_turn(
    said: list[GivenTurn],
) -> None:
    repaired = repair(flat(said))

    assert violations(repaired) == []
    assert repair(repaired) == repaired
    tracker = CallTracker()
    assert [message for turn in said for message in tracker.repair(turn.messages)] == repaired
    for message in flat(said):
        content = message["content"]
        adopted = isinstance(content, str) and any(
            content in str(each["content"]) for each in repaired if each["role"] == "user"
        )
        assert message in repaired or adopted


@given(chaos, chaos)
def test_what_comes_later_never_changes_what_was_repaired_before(
    said: list[GivenTurn], later: list[GivenTurn]
) -> None:
    before = repair(flat(said))

    assert repair(flat(said + later))[: len(before)] == before


@given(chaos)
def test_segments_hold_every_turn_once_and_the_last_is_open_exactly_while_a_call_waits(
    said: list[GivenTurn],
) -> None:
    groups, is_open = segments(range(len(said)), [turn.messages for turn in said])

    assert [at for group in groups for at in group] == list(range(len(said)))
    assert all(groups)
    tracker = CallTracker()
    tracker.repair(flat(said))
    assert is_open == bool(tracker.open)


@given(legal_conversations(3))
def test_what_is_legal_stays_as_it_is_and_a_cut_leaves_both_sides_legal(
    said: list[GivenTurn],
) -> None:
    groups, _ = segments(range(len(said)), [turn.messages for turn in said])

    assert violations(flat(said)) == []
    assert repair(flat(said)) == flat(said)
    for cut in accumulate(map(len, groups)):
        assert violations(flat(said[:cut])) == []
        assert violations(flat(said[cut:])) == []


# What no provider takes is found: every test above trusts the judge.

ASKED: dict[str, Any] = {
    "id": "c",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}
CALLING = {"role": "assistant", "content": None, "tool_calls": [ASKED]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "4"}
USER = {"role": "user", "content": "Go on."}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
USED = {"type": "tool_result", "tool_use_id": "c", "content": "4"}
TWICE = {**CALLING, "tool_calls": [ASKED, ASKED]}


def called(call_id: str, value: object = None) -> list[dict[str, Any]]:
    use = {**USE, "id": call_id, "input": {} if value is None else value}
    used = {**USED, "tool_use_id": call_id}
    return [
        USER,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [used]},
    ]


USES = called("c")[1:]
CALL_ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT_ITEM = {"type": "function_call_output", "call_id": "c", "output": "4"}


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        pytest.param("chat", [USER, RESULT], id="chat-result-without-call"),
        pytest.param("chat", [USER, CALLING, USER], id="chat-call-without-result"),
        pytest.param("chat", [USER, CALLING, USER, RESULT], id="chat-words-between"),
        pytest.param("chat", [USER, CALLING, RESULT, RESULT], id="chat-result-twice"),
        pytest.param("chat", [USER, TWICE, RESULT, RESULT], id="chat-two-calls-with-one-id"),
        pytest.param("anthropic", [USER, *USES, *USES], id="anthropic-id-again"),
        pytest.param("anthropic", called("a b"), id="anthropic-id-of-other-letters"),
        pytest.param("anthropic", called("c" * 65), id="anthropic-id-too-long"),
        pytest.param("anthropic", called("c", "now"), id="anthropic-input-no-object"),
        pytest.param(
            "responses", [CALL_ITEM, OUTPUT_ITEM, CALL_ITEM, OUTPUT_ITEM], id="responses-id-again"
        ),
        pytest.param(
            "anthropic", [{"role": "assistant", "content": "Hi."}], id="anthropic-assistant-first"
        ),
        pytest.param(
            "anthropic", [{"role": "user", "content": [USED]}], id="anthropic-result-without-call"
        ),
        pytest.param(
            "anthropic",
            [USER, {"role": "assistant", "content": [USE]}, USER],
            id="anthropic-call-without-result",
        ),
        pytest.param("anthropic", [{"role": "user", "content": ""}], id="anthropic-empty"),
        pytest.param("anthropic", [{"role": "user", "content": [USE]}], id="anthropic-users-call"),
        pytest.param("responses", [CALL_ITEM], id="responses-call-without-output"),
        pytest.param("responses", [OUTPUT_ITEM], id="responses-output-without-call"),
        pytest.param(
            "responses",
            [CALL_ITEM, {**OUTPUT_ITEM, "type": "computer_call_output"}],
            id="responses-output-of-another-kind",
        ),
        pytest.param(
            "responses", [{"type": "reasoning", "id": "r"}], id="responses-reasoning-alone"
        ),
    ],
)
def test_what_a_provider_would_refuse_is_found(dialect: str, messages: list[JsonMessage]) -> None:
    assert violations_in(messages, dialect) != []
