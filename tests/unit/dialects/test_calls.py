"""Calls as agents really send them: ids twice, ids of strange letters, arguments of any shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from tests import realdata
from tests.unit.dialects.test_round_trips import stored
from turnmill.contract.legality import UNKNOWN_CALL, repair
from turnmill.dialects.convert import DIALECTS, from_chat
from turnmill.dialects.legality import violations

Json = dict[str, Any]
SHAPES: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "anthropic": TypeAdapter(list[MessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
}
ASKED: Json = {"role": "user", "content": "Look twice."}
THOUGHT: Json = {"type": "thinking", "thinking": "Two places.", "signature": "s1"}


def calling(*ids: str, arguments: str = "{}") -> Json:
    function = {"name": "look", "arguments": arguments}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def shown(messages: list[Json], dialect: str) -> list[Json]:
    """What a provider of the dialect gets, if it takes it."""
    found = from_chat(repair(messages), dialect).messages
    assert violations(found, dialect) == []
    SHAPES[dialect].validate_json(json.dumps(found))
    return found


def pairs(messages: list[Json], dialect: str) -> list[tuple[str, str]]:
    """The ids of the calls in order, each with what its result says."""
    found = shown(messages, dialect)
    if dialect == "responses":
        said = {each["call_id"]: each["output"] for each in found if "output" in each}
        ids = [each["call_id"] for each in found if each.get("type") == "function_call"]
    elif dialect == "anthropic":
        blocks = [b for each in found if isinstance(each["content"], list) for b in each["content"]]
        said = {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}
        ids = [b["id"] for b in blocks if b["type"] == "tool_use"]
    else:
        said = {each["tool_call_id"]: each["content"] for each in found if each["role"] == "tool"}
        ids = [call["id"] for each in found for call in each.get("tool_calls") or ()]
    return [(call_id, said[call_id]) for call_id in ids]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_calls_with_one_id_have_a_result_each(dialect: str) -> None:
    messages = [ASKED, calling("c", "c"), result("c", "left"), result("c", "right")]

    assert pairs(messages, dialect) == [("c", "left"), ("c__2", "right")]


def test_thoughts_between_two_calls_with_one_id_stay_between_them() -> None:
    uses = [{"type": "tool_use", "id": "c", "name": "look", "input": {"at": at}} for at in (1, 2)]
    answers = [{"type": "tool_result", "tool_use_id": "c", "content": each} for each in "ab"]
    said = {"role": "assistant", "content": [uses[0], THOUGHT, uses[1]]}
    messages = stored([[ASKED], [said], [{"role": "user", "content": answers}]])

    found = shown(messages, "anthropic")

    assert found[1]["content"] == [uses[0], THOUGHT, {**uses[1], "id": "c__2"}]
    assert [each["tool_use_id"] for each in found[2]["content"]] == ["c", "c__2"]


def test_an_id_that_comes_again_in_a_later_turn_is_another_where_a_provider_wants_it() -> None:
    messages = [ASKED, calling("c"), result("c", "one"), calling("c"), result("c", "two")]

    assert shown(messages, "chat") == messages
    for dialect in ("anthropic", "responses"):
        assert pairs(messages, dialect) == [("c", "one"), ("c__2", "two")]


@pytest.mark.parametrize("call_id", ["functions.look:0", "wo bist du?", "ü" * 9, "x" * 300, "a|b"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_id_is_one_that_the_provider_takes(dialect: str, call_id: str) -> None:
    messages = [ASKED]
    for text in "abc":
        messages += [calling(call_id), result(call_id, text)]

    assert [text for _, text in pairs(messages, dialect)] == (
        ["a", "b", "c"] if dialect != "chat" else ["c", "c", "c"]
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("call_id", ["c", "functions.look:0", "y" * 80])
def test_a_result_with_the_id_that_was_shown_is_of_the_call_it_was_shown_for(
    dialect: str, call_id: str
) -> None:
    before = [ASKED, calling(call_id), result(call_id, "one"), calling(call_id)]
    *_, (name, _) = pairs([*before, result(call_id, "two")], dialect)

    found = shown([*before, result(name, "two")], dialect)

    assert found == shown([*before, result(call_id, "two")], dialect)
    assert UNKNOWN_CALL not in json.dumps(found)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", {}),
        ('{"a": ', {"arguments": '{"a": '}),
        ("[1]", {"arguments": [1]}),
        ("null", {"arguments": None}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
        ('{"a": 1e999}', {"arguments": '{"a": 1e999}'}),
        ("[" * 100_000, {"arguments": "[" * 100_000}),
        (json.dumps({"text": "x" * 1_000_000}), {"text": "x" * 1_000_000}),
    ],
)
def test_arguments_are_as_sent_and_an_object_where_a_provider_wants_one(
    arguments: str, found: Json
) -> None:
    messages = [ASKED, calling("c", arguments=arguments), result("c", "done")]

    assert shown(messages, "chat") == messages
    assert shown(messages, "responses")[1]["arguments"] == arguments
    [use] = shown(messages, "anthropic")[1]["content"]
    assert use["input"] == found
    json.dumps(use, allow_nan=False)


steps = st.lists(
    st.tuples(st.lists(st.sampled_from(["c", "d", "c__2", "e.f"]), max_size=3), st.booleans()),
    max_size=8,
)


@given(steps)
def test_what_was_shown_stays_as_more_is_said_whatever_ids_come_again(
    taken: list[tuple[list[str], bool]],
) -> None:
    messages, before = [ASKED], {dialect: [ASKED] for dialect in DIALECTS}
    for ids, is_answered in taken:
        said = calling(*ids) if ids else {"role": "assistant", "content": "Well."}
        answers = [result(each, str(at)) for at, each in enumerate(ids) if is_answered or at]
        messages += [said, *answers, ASKED]
        for dialect in DIALECTS:
            found = shown(messages, dialect)
            assert found[: len(before[dialect])] == before[dialect]
            before[dialect] = found


@realdata.requires_data
@pytest.mark.parametrize("name", realdata.names())
def test_recorded_sessions_have_ids_that_every_provider_takes(name: str) -> None:
    for session in realdata.sessions(name, 3):
        messages = [each for each in session["messages"] if each["role"] != "system"]
        for dialect in DIALECTS:
            assert violations(from_chat(repair(messages), dialect).messages, dialect) == []


def test_an_output_is_of_the_kind_of_its_call() -> None:
    asked: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    told: Json = {"type": "custom_tool_call_output", "call_id": "c", "output": "1"}

    found = shown(stored([[ASKED], [asked], [told]]), "responses")

    assert [each["type"] for each in found[1:]] == ["function_call", "function_call_output"]
