"""Fields that no provider takes are refused by name; those of the providers' packages are known."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import ModuleType
from typing import Any, get_args, get_type_hints

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest

from turnmill import InvalidTurn
from turnmill.contract.fields import (
    ANTHROPIC_CALL,
    ANTHROPIC_MESSAGE,
    ANTHROPIC_RESULT,
    CALL,
    FUNCTION,
    MESSAGE,
    PART,
    RESPONSES_CALL,
    RESPONSES_MESSAGE,
    RESPONSES_RESULT,
    TURN,
)
from turnmill.contract.turns import Turn, encode_turn, to_turn
from turnmill.dialects.convert import from_chat, turn_in_chat
from turnmill.dialects.native import RESPONSES_CALLS

Json = dict[str, Any]
HI: Json = {"role": "user", "content": "hi"}
TEXT: Json = {"type": "text", "text": "hi"}
RESULT: Json = {"type": "tool_result", "tool_use_id": "t", "content": ""}
USE: Json = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
FUNCTION_CALL: Json = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
ASKED: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
CALLED: Json = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT: Json = {"type": "function_call_output", "call_id": "a", "output": ""}
URL: Json = {"type": "url", "url": "https://e.org"}
RED: Json = {"colour": "red"}


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({**HI, **RED}, r"messages\[0\]\.colour: no such field; allowed are annotations, .* x_ or"),
        ([HI, {**HI, **RED}], r"messages\[1\]\.colour: no such field"),
        ({"messages": [{**HI, "contnt": "x"}]}, r"\[0\]\.contnt: .*; did you mean content\?"),
        ({**HI, "content": [{**TEXT, **RED}]}, r"messages\[0\]\.content\[0\]\.colour: no such"),
        (
            {"role": "assistant", "tool_calls": [{**FUNCTION_CALL, **RED}]},
            r"messages\[0\]\.tool_calls\[0\]\.colour: no such field",
        ),
        ({"messages": [HI], "pined": True}, r"^pined: no such field; did you mean pinned\?$"),
        ({**HI, "pined": True}, r"\[0\]\.pined: .* pinned, a field of the turn, beside messages"),
        ([{"role": "user", "content": [RESULT], **RED}], r"messages\[0\]\.colour: no such field"),
        ([{"role": "assistant", "content": [USE], **RED}], r"messages\[0\]\.colour: no such"),
        (
            [{"role": "user", "content": [{**TEXT, **RED}, RESULT]}],
            r"messages\[0\]\.content\[0\]\.colour: no such field",
        ),
        ([{"role": "assistant", "content": [{**USE, **RED}]}], r"\.content\[0\]\.colour: no such"),
        ([{"role": "user", "content": [{**RESULT, **RED}]}], r"\.content\[0\]\.colour: no such"),
        ([{**CALLED, **RED}], r"items\[0\]\.colour: no such field; allowed are .* x_ or"),
        ([CALLED, {**OUTPUT, **RED}], r"items\[1\]\.colour: no such field"),
        ([CALLED, {**OUTPUT, "output": None}], r"items\[1\]\.output: must be text or a list"),
        ([CALLED, {**OUTPUT, "output": {"a": 1}}], r"items\[1\]\.output: .* parts, got dict"),
        ([{**ASKED, **RED}], r"items\[0\]\.colour: no such field; allowed are content, id, phase"),
        ([{**ASKED, "role": "assistant", **RED}], r"items\[0\]\.colour: no such field"),
        (
            {
                **HI,
                "content": [{"type": "image_url", "image_url": {"url": "https://e.org", **RED}}],
            },
            r"messages\[0\]\.content\[0\]\.image_url\.colour: no such field; allowed are",
        ),
        ({**HI, "content": [{**TEXT, "cache_control": RED}]}, r"\.cache_control\.colour: no such"),
        (
            {**HI, "content": [{**TEXT, "cache_control": "1h"}]},
            r"_control: must be an object",
        ),
        (
            [{"role": "user", "content": [{"type": "document", "source": {**URL, **RED}}, RESULT]}],
            r"messages\[0\]\.content\[0\]\.source\.colour: no such field",
        ),
        ({"role": "assistant", "function_call": RED}, r"messages\[0\]\.function_call\.colour: no"),
        ({"role": "assistant", "audio": {}}, r"messages\[0\]: audio needs id"),
        ({**HI, "audio": {"id": "a"}}, r"messages\[0\]: audio is for role assistant, not user"),
        ({**HI, "tool_call_id": "a"}, r"messages\[0\]: tool_call_id is for role tool, not user"),
        (
            [{**HI, "content": [{"type": "thinking", "thinking": ""}]}],
            r"type thinking cannot be read",
        ),
        ({"role": "assistant", "tool_calls": [{**FUNCTION_CALL, "id": 5}]}, r"id: .*\(got int\)$"),
        ({**HI, "content": [{"type": ["text"]}]}, r"^type: must be text, got list$"),
        ([{**HI, "content": [{"type": {}, "text": "a"}, RESULT]}], r"got dict"),
        ({"type": ["message"], "role": "user", "content": ""}, r"got list"),
        ({"messages": [HI], "turn_id": "a\ud800"}, r"turn_id: must be text of whole characters"),
    ],
)
def test_a_field_that_no_provider_takes_is_refused_by_its_name(turn: Any, said: str) -> None:
    with pytest.raises(InvalidTurn, match=said):
        to_turn(turn_in_chat(turn)[1])


@pytest.mark.parametrize("name", ["I live in Oslo", "Zz", "a" * 41, "né"])
@pytest.mark.parametrize("holder", [HI, {"messages": [HI]}])
def test_what_does_not_look_like_a_name_is_not_quoted(name: str, holder: Json) -> None:
    with pytest.raises(InvalidTurn) as refused:
        to_turn({**holder, name: 1})

    assert f"an unknown field, its name has {len(name)} characters" in str(refused.value)
    assert name not in str(refused.value)


@pytest.mark.parametrize("field", ["x_colour", "provider_specific_fields", "x_"])
def test_fields_of_a_server_of_ones_own_are_kept(field: str) -> None:
    (message,) = to_turn({**HI, field: {"a": 1}}).messages

    assert message.model_dump()[field] == {"a": 1}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "hi", "reasoning_items": [{"type": "reasoning"}]},
        {
            "role": "user",
            "content": [{"type": "file", "file": {"file_id": "a", "video_metadata": {"fps": 2}}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "image_url",
                    "image_url": {"url": "https://e.org", "format": "image/png"},
                    "uuid": "a",
                }
            ],
        },
    ],
)
def test_fields_of_litellm_and_vllm_are_kept(message: Json) -> None:
    found = from_chat(json.loads(encode_turn(to_turn(message))[0]), "chat")

    assert found.messages == [message]


@pytest.mark.parametrize("said", [HI, {"role": "assistant", "content": "hi"}])
def test_empty_fields_of_another_role_say_nothing(said: Json) -> None:
    dumped = {**said, "tool_calls": [], "tool_call_id": "", "refusal": "", "audio": None}

    assert json.loads(encode_turn(to_turn(dumped))[0]) == [said]


def fields_in(module: ModuleType, *words: str) -> set[str]:
    """Of the types whose names begin with one of the words."""
    names = [name for name in dir(module) if name.startswith(words)]
    kinds = [getattr(module, name) for name in names if "Delta" not in name]
    return {name for kind in kinds for name in getattr(kind, "__annotations__", ())}


def test_all_fields_in_the_types_of_the_providers_packages_are_known() -> None:
    chat, responses, blocks = openai.types.chat, openai.types.responses, anthropic.types
    of_roles = [f"ChatCompletion{role}MessageParam" for role in ("System", "User", "Tool")]
    of_roles += ["ChatCompletionDeveloperMessageParam", "ChatCompletionAssistantMessageParam"]
    parts = fields_in(chat, "ChatCompletionContentPart")
    parts |= fields_in(responses, "ResponseInputText", "ResponseInputImage", "ResponseInputFile")
    parts |= fields_in(responses, "ResponseOutputTextParam", "ResponseOutputRefusalParam")
    parts |= fields_in(blocks, "TextBlockParam", "ImageBlockParam", "DocumentBlockParam")
    parts |= fields_in(blocks, "SearchResultBlockParam", "ContainerUploadBlockParam")

    assert fields_in(chat, *of_roles) <= MESSAGE
    assert set(chat.ParsedChatCompletionMessage.model_fields) <= MESSAGE
    assert fields_in(chat, "ChatCompletionMessageFunctionToolCallParam") <= CALL
    assert fields_in(chat, "ChatCompletionMessageCustomToolCallParam") <= CALL
    assert parts <= PART
    assert fields_in(responses, "EasyInputMessageParam") <= RESPONSES_MESSAGE
    assert fields_in(responses, "ResponseOutputMessageParam") <= RESPONSES_MESSAGE
    assert set(blocks.Message.model_fields) <= ANTHROPIC_MESSAGE
    assert set(chat.parsed_function_tool_call.ParsedFunction.model_fields) <= FUNCTION
    assert set(Turn.model_fields) == TURN
    assert fields_in(blocks, "ToolUseBlockParam") | set(blocks.ToolUseBlock.model_fields) <= (
        ANTHROPIC_CALL
    )
    assert fields_in(blocks, "ToolResultBlockParam") <= ANTHROPIC_RESULT
    assert fields_of_items(RESPONSES_CALLS.keys()) <= RESPONSES_CALL
    assert fields_of_items(RESPONSES_CALLS.values()) <= RESPONSES_RESULT


def fields_of_items(kinds: Iterable[str]) -> set[str]:
    """Of the items of these types, as the API takes and as it answers them."""
    taken = get_args(openai.types.responses.ResponseInputItemParam)
    found: set[str] = set()
    for item in taken:
        hints = get_type_hints(item)
        if {*get_args(hints.get("type"))} & {*kinds}:
            found |= hints.keys()
    answered = get_args(get_args(openai.types.responses.ResponseOutputItem)[0])
    for model in answered:
        if {*get_args(model.model_fields["type"].annotation)} & {*kinds}:
            found |= {field.alias or name for name, field in model.model_fields.items()}
    return found
