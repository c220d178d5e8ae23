"""What a message costs: never less than the cookbook says, images flat, nothing forgotten."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.realdata import names, requires_data, sessions
from turnmill_worker.tokens import (
    REPLY_TOKENS,
    count_message,
    count_request,
    counter_for,
    image_tokens,
)

COUNTER = counter_for()
count = COUNTER.count
IMAGE = "data:image/png;base64," + base64.b64encode(bytes(90_000)).decode()
MOST = 1445  # four by two tiles, for an image of unknown size
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}


def test_a_plain_message_costs_what_the_cookbook_says() -> None:
    message = {"role": "user", "content": "Hello there"}

    assert count_message(COUNTER, message) == 3 + count("user") + count("Hello there")


def test_a_name_costs_one_token_more_than_its_text() -> None:
    plain = {"role": "user", "content": "Hi"}

    named = count_message(COUNTER, plain | {"name": "alice"})

    assert named == count_message(COUNTER, plain) + count("alice") + 1


def test_a_list_of_messages_is_primed_for_its_reply_once() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]

    assert count_request(COUNTER, messages) == REPLY_TOKENS + sum(
        count_message(COUNTER, message) for message in messages
    )


def test_no_messages_cost_the_reply_alone() -> None:
    assert count_request(COUNTER, []) == REPLY_TOKENS


def test_null_content_costs_nothing() -> None:
    assert count_message(COUNTER, {"role": "assistant", "content": None}) == 4


def test_a_tool_call_costs_its_name_arguments_id_and_framing() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}

    expected = 4 + 8 + count("call_1") + count("look") + count('{"a":1}')
    assert count_message(COUNTER, message) == expected


def test_a_custom_call_costs_like_a_function_call() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "look", "input": '{"a":1}'}}
    message = {"role": "assistant", "content": None}

    assert count_message(COUNTER, message | {"tool_calls": [custom]}) == count_message(
        COUNTER, message | {"tool_calls": [CALL]}
    )


def test_a_tool_result_costs_the_id_it_answers() -> None:
    message = {"role": "tool", "content": "42", "tool_call_id": "call_1"}

    assert count_message(COUNTER, message) == 3 + count("tool") + 1 + count("call_1") + count("42")


def test_arguments_that_are_an_object_count_as_their_json() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": "é"}}}

    assert count_message(COUNTER, {"role": "assistant", "tool_calls": [call]}) == (
        4 + 8 + count("c") + count("f") + count('{"a":"é"}')
    )


def test_an_unknown_field_counts_as_text() -> None:
    plain = {"role": "assistant", "content": "Yes"}
    thought = "because " * 50

    with_thought = count_message(COUNTER, plain | {"reasoning_content": thought})

    assert with_thought >= count_message(COUNTER, plain) + count(thought)


def test_an_unknown_field_of_a_call_counts_as_text() -> None:
    odd = CALL | {"signature": "x" * 500}

    assert count_message(COUNTER, {"role": "assistant", "tool_calls": [odd]}) > count("x" * 500)


@pytest.mark.parametrize("field", ["content", "tool_calls", "refusal", "audio", "function_call"])
def test_a_null_field_costs_nothing(field: str) -> None:
    assert count_message(COUNTER, {"role": "assistant", field: None}) == 4


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "some words here"}],
        [{"type": "refusal", "refusal": "some words here"}],
        [{"type": "thinking", "thinking": "some words here"}],
        ["some words here"],
        {"said": "some words here"},
    ],
)
def test_text_is_counted_wherever_it_stands(content: object) -> None:
    assert count_message(COUNTER, {"role": "user", "content": content}) >= 4 + count(
        "some words here"
    )


def test_an_image_costs_its_price_and_never_its_base64() -> None:
    part = {"type": "image_url", "image_url": {"url": IMAGE}}

    assert count_message(COUNTER, {"role": "user", "content": [part]}) == 4 + 1 + MOST


@pytest.mark.parametrize(
    ("url", "tokens"),
    [
        ("blob:" + "0" * 64 + ";image/png;1024x1024", 765),
        ("blob:" + "0" * 64 + ";image/png;0x0", MOST),
        ("data:image/gif;base64," + base64.b64encode(b"GIF89a" + bytes([64, 0] * 2)).decode(), 255),
        ("https://example.com/a.png", MOST),
        ("file://images/a.png", MOST),
    ],
)
def test_an_image_is_priced_by_the_size_its_url_tells(url: str, tokens: int) -> None:
    assert image_tokens({"image_url": {"url": url}}, COUNTER.basis) == tokens
    assert image_tokens({"image_url": {"url": url, "detail": "high"}}, COUNTER.basis) == tokens
    assert image_tokens({"image_url": {"url": url, "detail": "low"}}, COUNTER.basis) == 85
    assert image_tokens({"image_url": url, "detail": "low"}, COUNTER.basis) == 85


def test_an_image_is_priced_by_the_formula_the_counter_s_basis_names() -> None:
    part = {"type": "image_url", "image_url": {"url": "blob:" + "0" * 64 + ";image/png;64x64"}}
    message = {"role": "user", "content": [part]}

    assert count_message(counter_for("o200k_base", "gpt-4o-mini"), message) == 4 + 1 + 8500
    assert count_message(counter_for("o200k_base", "gpt-4.1-nano"), message) == 4 + 1 + 10


def test_a_basis_without_a_formula_means_the_default() -> None:
    assert image_tokens({"image_url": {"url": IMAGE}}, "o200k_base/1") == MOST


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": IMAGE, "format": "wav"}},
        {"type": "file", "file": {"file_data": IMAGE, "filename": "a.pdf"}},
    ],
)
def test_sound_and_files_are_never_counted_as_base64(part: dict[str, Any]) -> None:
    tokens = count_message(COUNTER, {"role": "user", "content": [part]})

    assert len(IMAGE) / 100 <= tokens <= len(IMAGE) / 50


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": None, "content": 7},
        {"role": "assistant", "tool_calls": ["odd", None, {}]},
        {"role": "assistant", "tool_calls": {"id": 1}},
        {"role": "assistant", "tool_calls": [{"function": "odd", "custom": 1}]},
        {"role": "user", "content": [None, 1, {"type": "file"}, {"type": "image_url"}, {}]},
        {"role": "user", "content": [{"type": "file", "file": "x"}, {"type": ["odd"]}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": 5}}], "\ud800": "x"},
        {"role": "user", "content": object()},
    ],
)
def test_an_odd_message_is_counted_not_refused(message: dict[str, Any]) -> None:
    assert count_message(COUNTER, message) >= 3


@requires_data
@pytest.mark.parametrize("name", names())
def test_real_sessions_never_cost_less_than_their_own_count(name: str) -> None:
    for session in sessions(name):
        assert count_request(COUNTER, session["messages"]) >= session["tokens_o200k"]


@requires_data
@pytest.mark.parametrize("name", names())
def test_real_messages_never_cost_less_than_the_cookbook(name: str) -> None:
    for session in sessions(name, 10):
        for message in session["messages"]:
            assert count_message(COUNTER, message) >= _cookbook(message)


def _cookbook(message: dict[str, Any]) -> int:
    texts = [message["role"], message.get("name")]
    content = message.get("content")
    if isinstance(content, list):
        texts += [part.get("text") for part in content]
    else:
        texts.append(content)
    return 3 + sum(count(text) for text in texts if text) + (1 if message.get("name") else 0)
