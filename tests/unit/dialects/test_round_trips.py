"""What was pushed in a dialect comes back as it was, and every provider takes what comes back."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from tests.dialects import anthropic_turns, responses_turns
from turnmill.contract.errors import InvalidTurn
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.dialects.cache_marks import with_last_marks
from turnmill.dialects.convert import DIALECTS, from_chat, turn_in_chat
from turnmill.dialects.legality import violations
from turnmill.dialects.native import Converted

Json = dict[str, Any]
ANTHROPIC: TypeAdapter[Any] = TypeAdapter(list[MessageParam])
RESPONSES: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])


def stored(turns: list[list[Json]]) -> list[Json]:
    """The messages of the turns as Redis has them."""
    bodies = [encode_turn(to_turn(turn_in_chat(turn)[1]))[0] for turn in turns]
    return [message for body in bodies for message in json.loads(body)]


@given(anthropic_turns())
def test_anthropic_messages_come_back_as_they_were(turns: list[list[Json]]) -> None:
    whole = list(chain.from_iterable(turns))

    found = from_chat(stored(turns), "anthropic")

    assert found == Converted(with_last_marks(whole))
    assert violations(whole, "anthropic") == []


@given(responses_turns())
def test_responses_items_come_back_as_they_were(turns: list[list[Json]]) -> None:
    whole = list(chain.from_iterable(turns))

    found = from_chat(stored(turns), "responses")

    assert found == Converted(whole)
    assert violations(whole, "responses") == []


@given(anthropic_turns() | responses_turns())
def test_every_dialect_says_what_another_said_as_its_provider_takes_it(
    turns: list[list[Json]],
) -> None:
    messages = stored(turns)

    for dialect in DIALECTS:
        assert violations(from_chat(messages, dialect).messages, dialect) == []
    ANTHROPIC.validate_python(from_chat(messages, "anthropic").messages)
    RESPONSES.validate_python(from_chat(messages, "responses").messages)
    assert "native" not in json.dumps(from_chat(messages, "chat").messages)


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ([{"role": "user", "content": [{"type": "video"}]}], "a part of type video cannot be read"),
        (
            [{"role": "assistant", "content": [{"type": "thinking"}, {"type": "dream"}]}],
            r"content\[1\]: a part of type dream",
        ),
        ([{"type": "reasoning"}, {"type": "dream"}], r"items\[1\]: a part of type dream"),
        (
            [{"role": "user", "content": [{"type": "tool_result"}]}],
            "needs the id of its call",
        ),
        (
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}],
            "input: a tool_use block needs a Mapping",
        ),
        ([{"type": "function_call", "call_id": "c", "name": "f"}], "arguments: a function_call"),
    ],
)
def test_a_part_that_nobody_can_read_is_refused_by_its_name(turn: list[Json], said: str) -> None:
    with pytest.raises(InvalidTurn, match=said):
        to_turn(turn_in_chat(turn)[1])


REASONED: list[Json] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x9"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "So far", "annotations": []}],
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "run", "input": "ls"},
]
ANSWERS: list[Json] = [
    {"type": "function_call_output", "call_id": "a", "output": "found"},
    {"type": "custom_tool_call_output", "call_id": "b", "output": "total 0"},
]


def test_without_its_reasoning_an_output_has_no_ids_and_nothing_of_the_providers_own_tools() -> (
    None
):
    said, *results = stored([[*REASONED, *ANSWERS]])
    left = {**said, "tool_calls": said["tool_calls"][:1]}

    found = from_chat([left, results[0]], "responses").messages

    assert found == [
        {"role": "assistant", "content": "So far"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        ANSWERS[0],
    ]


@pytest.mark.parametrize("content", ["[gone]", [{"type": "text", "text": "[gone]"}]])
def test_a_computer_whose_screen_left_the_context_is_a_function(content: object) -> None:
    call = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "wait"}}
    shown = {"type": "computer_screenshot", "image_url": "https://example.org/s.png"}
    output = {"type": "computer_call_output", "call_id": "c", "output": shown}
    said, result = stored([[call, output]])

    found = from_chat([said, {**result, "content": content}], "responses").messages

    assert [item["type"] for item in found] == ["function_call", "function_call_output"]
    RESPONSES.validate_python(found)
