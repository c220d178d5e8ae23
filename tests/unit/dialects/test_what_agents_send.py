"""Answers of packages, names that models make up, ids used again, parts without what they need."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types.parsed_message import ParsedMessage
from openai.types.chat import ChatCompletionMessage, ParsedChatCompletionMessage
from openai.types.responses import ParsedResponse
from pydantic import BaseModel

from tests.unit.dialects.test_what_is_empty_or_apart import Q, said_in
from turnmill import ContextClient, InvalidTurn, Policy
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.dialects.convert import from_chat, turn_in_chat

Json = dict[str, Any]


class Answer(BaseModel):
    a: int


TEXT = '{"a":1}'
RESPONSE: Json = {
    "id": "r", "created_at": 1, "model": "m", "object": "response", "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [],
}  # fmt: skip
MESSAGE: Json = {
    "id": "m", "model": "m", "role": "assistant", "type": "message", "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
ITEM: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
CALLED: Json = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
FUNCTION: Json = {"name": "f", "arguments": TEXT}


def pushed(dialect: str, answer: Any) -> list[Json]:
    """What a provider is sent of an object that its package answered with."""
    stored = encode_turn(to_turn(turn_in_chat(answer)[1]))[0]
    return from_chat(json.loads(stored), dialect).messages


def test_what_a_package_parsed_is_not_sent_back() -> None:
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    output = [
        {**ITEM, "content": [{**text, "parsed": {"a": 1}}]},
        {**CALLED, "arguments": TEXT, "parsed_arguments": {"a": 1}},
    ]
    response = ParsedResponse[Answer].model_validate({**RESPONSE, "output": output})
    call = {"id": "c", "type": "function", "function": FUNCTION}
    parsed = {**call, "function": {**FUNCTION, "parsed_arguments": {"a": 1}}}
    said = {"role": "assistant", "content": TEXT, "tool_calls": [parsed], "parsed": {"a": 1}}
    chat = ParsedChatCompletionMessage[Answer].model_validate(said)
    block = {"type": "text", "text": TEXT}
    content = [{**block, "parsed_output": {"a": 1}}]
    message = ParsedMessage[Answer].model_validate({**MESSAGE, "content": content})

    assert pushed("responses", response) == [
        {**ITEM, "content": [text]},
        {**CALLED, "arguments": TEXT},
    ]
    assert pushed("chat", chat) == [{"role": "assistant", "content": TEXT, "tool_calls": [call]}]
    assert pushed("anthropic", message)[1:] == [{"role": "assistant", "content": [block]}]


def test_an_answer_that_was_dumped_with_its_nulls_is_taken() -> None:
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    output = [{**ITEM, "content": [text]}, {**CALLED, "arguments": TEXT}]
    response = ParsedResponse[Answer].model_validate({**RESPONSE, "output": output})

    dumped = [item.model_dump(warnings=False) for item in response.output]

    assert dumped[1]["async_"] is None
    assert pushed("responses", dumped) == output


def test_a_spoken_answer_is_sent_as_its_id_and_its_sound_is_not_kept() -> None:
    audio = {"id": "audio_1", "data": "UklG" * 100, "expires_at": 1, "transcript": "Hello"}
    spoken = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "audio": audio}
    )

    (found,) = pushed("chat", spoken)

    assert found == {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}
    assert b"UklG" not in encode_turn(to_turn(turn_in_chat(spoken)[1]))[0]


@pytest.mark.parametrize(
    ("name", "in_chat", "elsewhere"),
    [
        ("functions.get it/é", "functions.get_it__", "functions_get_it__"),
        ("n" * 200, "n" * 128, "n" * 128),
        (" ", "_", "_"),
        ("look-up_2", "look-up_2", "look-up_2"),
    ],
)
def test_names_that_a_model_made_up_are_said_in_letters_that_are_taken(
    name: str, in_chat: str, elsewhere: str
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    turn: list[Json] = [asked, {"role": "tool", "tool_call_id": "c", "content": "no such tool"}]

    assert said_in("chat", *turn)[0]["tool_calls"][0]["function"]["name"] == in_chat
    assert said_in("anthropic", *turn)[0]["content"][0]["name"] == elsewhere
    assert said_in("responses", *turn)[0]["name"] == elsewhere


def test_ids_of_items_are_sent_once() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    first = [thought, {**CALLED, "arguments": "{}"}, output]
    again = [{**CALLED, "call_id": "d", "arguments": "{}"}, {**output, "call_id": "d"}]

    said = {**ITEM, "content": [{"type": "output_text", "text": "So.", "annotations": []}]}

    found = said_in("responses", *first, thought, *again, said, Q, said)

    assert found[:3] == first
    assert [item.get("id") for item in found[3:]] == [None, None, "msg_1", None, None]
    assert said_in("responses", *[{**said, "id": "__fake_id__"}, Q] * 2)[2]["id"] == "__fake_id__"
    assert found[5:] == [said, Q, {"role": "assistant", "content": "So."}]


IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "image"}, "image needs source with data and media_type, url, file_id"),
        (IMAGE, "image needs source"),
        ({"type": "document", "source": "x"}, "document needs source"),
        ({"type": "search_result"}, "search_result needs content"),
        ({"type": "file", "file": {"file_data": 5}}, r"file needs file\.file_data or"),
        ({"type": "input_audio", "input_audio": "x"}, r"needs input_audio\.data"),
        ({"type": "input_image"}, "input_image needs image_url or file_id"),
        ({"type": "input_file"}, "input_file needs file_data, file_id or file_url"),
        ({"type": "tool_reference"}, "tool_reference needs tool_name"),
    ],
)
def test_a_part_that_lacks_what_its_type_needs_is_refused(part: Json, said: str) -> None:
    with pytest.raises(InvalidTurn, match=said):
        to_turn(turn_in_chat({"role": "user", "content": [part]})[1])


@pytest.mark.parametrize("call", [{"type": "custom"}, {"type": "custom", "custom": "x"}])
def test_a_call_of_nothing_is_refused(call: Json) -> None:
    with pytest.raises(InvalidTurn, match="needs function or custom"):
        to_turn({"role": "assistant", "tool_calls": [{"id": "c", **call}]})


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/jpg;base64,aaaa", ("base64", "image/jpeg")),
        ("data:image/png;charset=utf-8;base64,aaaa", ("base64", "image/png")),
        ("https://example.org/a.png", ("url", None)),
        ("data:image/svg+xml;base64,aaaa", None),
        ("file:///tmp/a.png", None),
    ],
)
def test_anthropic_gets_images_that_it_takes_and_a_line_for_others(url: str, source: Any) -> None:
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}

    (block,) = said_in("anthropic", shown)[0]["content"]

    if source is None:
        assert block == {"type": "text", "text": "[image_url, which cannot be shown here]"}
    else:
        assert (block["source"]["type"], block["source"].get("media_type")) == source


def test_a_tool_reference_comes_back_in_its_result() -> None:
    use = {"type": "tool_use", "id": "t", "name": "search", "input": {}}
    found = {"type": "tool_reference", "tool_name": "weather"}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [found]}
    turn = {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}

    assert said_in("anthropic", *turn)[1]["content"] == [result]


def test_a_session_in_chat_shows_nothing_of_other_dialects(client: ContextClient) -> None:
    client.open("s", Policy(dialect="chat"))
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    client.push("s", Q)
    client.push("s", {"role": "assistant", "content": [thought, use]})
    client.push(
        "s",
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": True}],
        },
    )
    client.push("s", {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]})

    context = client.read("s")

    assert "native" not in json.dumps(context.messages)
    assert "input_image" not in {part["type"] for part in context.messages[-1]["content"]}
    assert context.messages == context.messages_for("chat") == context.request_for()["messages"]
    assert thought in context.messages_for("anthropic")[1]["content"]


@pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
def test_what_is_nested_too_deep_for_any_reader_is_refused(kind: str) -> None:
    deep: Json = {}
    for _ in range(3_000):
        deep = {"content": [deep]}
    block = {"type": kind, "id": "t", "name": "f", "input": deep, "content": [deep]}

    with pytest.raises(InvalidTurn, match="nested deeper"):
        turn_in_chat({"role": "assistant", "content": [block]})
