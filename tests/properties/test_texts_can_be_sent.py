"""Whatever text an agent pushes, what is read can be sent: it is UTF-8, in every dialect."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnmill import ContextClient, InvalidTurn, Policy
from turnmill.contract.codec import decode_exactly, decode_json, encode_json, sendable
from turnmill.contract.context import StoredContext
from turnmill.contract.log_entry import decode_turns
from turnmill.contract.render import render_head
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.dialects.convert import DIALECTS, from_chat, turn_in_chat

Json = dict[str, Any]
HALF = "a\ud800b"
MENDED = "a\ufffdb"
texts = st.text(st.characters() | st.sampled_from("\ud800\udfff\ud83d\ude00\x00\x1f"), max_size=20)
names = texts.filter(bool)
roomy = Policy(max_tokens=200_000)


def chat(text: str, name: str) -> list[Json]:
    function = {"name": name, "arguments": text}
    return [
        {"role": "user", "content": text, "name": name},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": text}, {"type": "refusal", "refusal": text}],
            "reasoning_content": text,
            "tool_calls": [{"id": name, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": name, "content": text},
    ]


def anthropic(text: str, name: str) -> list[Json]:
    call = {"type": "tool_use", "id": name, "name": name, "input": {text: [text]}}
    thought = {"type": "thinking", "thinking": text, "signature": "c2ln"}
    result = {"type": "tool_result", "tool_use_id": name, "content": text}
    return [
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": text}, call]},
        {"role": "user", "content": [result]},
    ]


def responses(text: str, name: str) -> list[Json]:
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "function_call", "call_id": name, "name": name, "arguments": text},
        {"type": "function_call_output", "call_id": name, "output": text},
        {"type": "custom_tool_call", "call_id": name, "name": name, "input": text},
        {"type": "custom_tool_call_output", "call_id": name, "output": text},
    ]


SHAPES = (chat, anthropic, responses)


def as_sent(value: object) -> bytes:
    """What a provider's client makes of it; raises for what has no UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize("shape", SHAPES)
@given(text=texts, name=names)
@settings(deadline=None)
def test_turns_of_every_dialect_leave_in_every_dialect(shape: Any, text: str, name: str) -> None:
    body, _ = encode_turn(to_turn(turn_in_chat(shape(text, name))[1]))

    for dialect in DIALECTS:
        found = from_chat(json.loads(body), dialect)
        as_sent([found.messages, found.system])


@pytest.mark.parametrize("shape", SHAPES)
@given(text=texts, name=names)
@settings(deadline=None)
def test_what_an_older_version_stored_leaves_as_well(shape: Any, text: str, name: str) -> None:
    in_chat: Any = turn_in_chat({"messages": shape(text, name)})[1]
    stored = json.dumps(in_chat["messages"])

    (messages,) = decode_turns([stored.encode()])

    for dialect in DIALECTS:
        as_sent(from_chat(messages, dialect))


@given(texts)
def test_rules_requests_facts_and_summaries_that_an_older_version_stored_leave(text: str) -> None:
    stored = {
        "version": 1,
        "summary": text,
        "ledger": text,
        "rules": [{"seq": 1, "text": text}],
        "requests": [{"seq": 1, "text": text}],
        "events": [{"iteration": 1, "last_iteration": 1, "first_seq": 1, "last_seq": 2}],
        "pins": [{"seq": 1, "messages": [{"role": "user", "content": text}]}],
    }
    stored["events"][0]["text"] = text  # type: ignore[index]

    as_sent(render_head(StoredContext.parse(json.dumps(stored).encode()), sendable(text)))


@given(texts, names)
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_was_pushed_a_read_can_be_sent(
    client: ContextClient, text: str, name: str
) -> None:
    session = uuid.uuid4().hex
    tool = {"name": name, "description": text, "input_schema": {"properties": {name: {}}}}
    client.open(session, roomy, system_prompt=text, tools=[tool])
    for shape in SHAPES:
        client.push(session, shape(text, name))

    context = client.read(session)

    as_sent([context.messages, context.system_prompt])
    for dialect in DIALECTS:
        as_sent(context.request_for(dialect))


def test_half_an_emoji_becomes_one_sign_and_both_halves_the_emoji(client: ContextClient) -> None:
    client.open("s", roomy, system_prompt=HALF)
    pushed = client.push("s", {"role": "user", "content": HALF}, turn_id="t1")
    client.push("s", {"role": "user", "content": "\ud83d\ude00"})  # as two strings joined have it
    client.push("s", {"role": "user", "content": json.loads('"\\ud83d\\ude00"')})

    again = client.push("s", {"role": "user", "content": HALF}, turn_id="t1")

    said = [message["content"] for message in client.read("s").messages]
    assert said == [MENDED, MENDED, "\U0001f600", "\U0001f600"]
    assert (pushed.seq, pushed.turn_id, again.duplicate) == (1, "t1", True)


def test_ids_stay_paired_and_a_turn_id_is_never_changed() -> None:
    messages = decode_json(encode_turn(to_turn(chat("x", HALF)))[0])

    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == MENDED
    with pytest.raises(InvalidTurn, match="turn_id: "):
        to_turn({"messages": [{"role": "user", "content": "x"}], "turn_id": HALF})


def test_metadata_are_the_agents_own_and_kept_to_the_byte() -> None:
    turn = {"messages": [{"role": "user", "content": "x"}], "metadata": {"file": "\udcff.txt"}}

    _, fields = encode_turn(to_turn(turn))

    assert decode_exactly(fields)["metadata"] == turn["metadata"]


@pytest.mark.parametrize("shape", SHAPES)
def test_control_characters_stay_as_providers_take_them(shape: Any) -> None:
    body, _ = encode_turn(to_turn(turn_in_chat(shape("a\x00\x1b\x7fb", "look"))[1]))

    for dialect in DIALECTS:
        sent = encode_json(from_chat(json.loads(body), dialect).messages)
        assert rb"a\u0000\u001b" in sent.replace(rb"\\u", rb"\u")
