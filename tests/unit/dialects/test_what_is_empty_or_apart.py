"""Empty contents, refusals, audio, roles and names: each dialect says what its provider takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill.contract.errors import InvalidTurn
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.dialects.convert import DIALECTS, from_chat, turn_in_chat
from turnmill.dialects.legality import violations

Json = dict[str, Any]
Q: Json = {"role": "user", "content": "q"}
NO: Json = {"type": "refusal", "refusal": "I cannot."}
SAID = [{"role": "assistant", "content": [{"type": "text", "text": "I cannot."}]}]
REFUSED = [{"type": "message", "role": "assistant", "content": [NO]}]
EMPTY = [{"type": "text", "text": "(empty)"}]
WAV: Json = {"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}}
PDF: Json = {"file_data": "data:application/pdf;base64,JVBERi0xLjQ=", "filename": "a.pdf"}
CITED: Json = {"type": "text", "text": "4", "citations": [{"type": "char_location"}]}
CALL: Json = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def said_in(dialect: str, *messages: Json) -> list[Json]:
    """What a provider is sent after a first question; checks what it would refuse."""
    stored = encode_turn(to_turn(turn_in_chat([Q, *messages])[1]))[0]
    found = from_chat(json.loads(stored), dialect).messages
    assert violations(found, dialect) == []
    return found[1:]


@pytest.mark.parametrize(
    "refused",
    [
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"role": "assistant", "content": "", "refusal": "I cannot."},
        {"role": "assistant", "content": [NO]},
    ],
)
def test_a_refusal_is_said_in_every_dialect(refused: Json) -> None:
    assert said_in("chat", refused) == [refused]
    assert said_in("anthropic", refused) == SAID
    assert said_in("responses", refused) == REFUSED


def test_a_refusal_of_responses_comes_back_as_it_was_and_elsewhere_as_text() -> None:
    item = {**REFUSED[0], "id": "msg_1", "status": "completed"}

    assert said_in("responses", item) == [item]
    assert said_in("anthropic", item) == SAID
    assert said_in("chat", item) == [{"role": "assistant", "content": [NO]}]


@pytest.mark.parametrize("content", [None, "", []])
def test_an_answer_of_nothing_is_empty_text_or_left_out(content: Any) -> None:
    answer = {"role": "assistant", "content": content}

    assert said_in("chat", answer) == [{"role": "assistant", "content": ""}]
    assert said_in("anthropic", answer) == [{"role": "assistant", "content": EMPTY}]
    assert said_in("responses", answer) == []


@pytest.mark.parametrize("content", ["", []])
def test_a_user_and_a_tool_may_say_nothing(content: Any) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    user = {"role": "user", "content": content}

    chat = said_in("chat", call, result, user)
    blocks = said_in("anthropic", call, result, user)
    items = said_in("responses", call, result, user)

    assert [message["content"] for message in chat] == [None, "", ""]
    assert blocks[1]["content"][0]["content"] == ""
    assert blocks[2]["content"] == "(empty)"
    assert (items[1]["output"], items[2]["content"]) == ("", "")


@pytest.mark.parametrize("content", [" \n", [{"type": "text", "text": "\t"}]])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_white_space_alone_is_no_text_for_anthropic(role: str, content: Any) -> None:
    (found,) = said_in("anthropic", {"role": role, "content": content})

    assert found["content"] in ("(empty)", EMPTY)


def test_thoughts_of_nothing_are_kept_if_they_are_signed() -> None:
    signed = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    blocks = [signed, {"type": "thinking", "thinking": "hm", "signature": ""}, *EMPTY]

    (found,) = said_in("anthropic", {"role": "assistant", "content": blocks})

    assert found["content"] == [signed, *EMPTY]
    assert said_in("chat", {"role": "assistant", "content": blocks})[0]["content"] == EMPTY
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = {"type": "message", "role": "assistant", "content": "a"}
    assert said_in("responses", reasoning, answer) == [reasoning, answer]


def test_what_was_spoken_is_written_where_no_audio_is_taken() -> None:
    spoken = {"role": "assistant", "content": None, "audio": {"id": "au", "transcript": "Hello."}}

    assert said_in("chat", spoken) == [{**spoken, "audio": {"id": "au"}}]
    assert said_in("responses", spoken) == [{"role": "assistant", "content": "Hello."}]
    (found,) = said_in("anthropic", spoken)
    assert found["content"] == [{"type": "text", "text": "Hello."}]
    (heard,) = said_in("anthropic", {"role": "user", "content": [WAV]})
    assert heard["content"][0]["text"] == "[input_audio, which cannot be shown here]"
    (heard,) = said_in("responses", {"role": "user", "content": [WAV]})
    assert heard["content"][0]["text"] == "[input_audio, which cannot be shown here]"


def test_documents_and_citations_are_the_dialects_own() -> None:
    document = {"role": "user", "content": [{"type": "file", "file": PDF}]}

    assert said_in("responses", document)[0]["content"] == [{"type": "input_file", **PDF}]
    assert said_in("anthropic", document)[0]["content"][0]["type"] == "document"
    cited = {"role": "assistant", "content": [{"type": "thinking", "signature": "s"}, CITED]}
    assert said_in("anthropic", cited) == [cited]
    assert said_in("chat", cited)[0]["content"] == [{"type": "text", "text": "4"}]
    assert said_in("responses", cited) == [{"role": "assistant", "content": "4"}]


def test_a_text_has_for_anthropic_no_fields_of_other_servers() -> None:
    part = {"type": "text", "text": "a", "annotations": [], "x_own": 1}

    (found,) = said_in("anthropic", {"role": "user", "content": [part]})

    assert found["content"] == [{"type": "text", "text": "a"}]


def test_a_developer_and_names_leave_only_where_the_provider_has_them() -> None:
    named = [{"role": "developer", "content": "be"}, {**Q, "name": "bob"}]

    assert said_in("chat", *named) == named
    assert said_in("anthropic", *named) == [{"role": "user", "content": "be"}, Q]
    assert said_in("responses", *named) == [named[0], Q]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_servers_own_fields_stay_in_chat(dialect: str) -> None:
    own = {**Q, "x_priority": 1}

    assert said_in(dialect, own) == ([own] if dialect == "chat" else [Q])


def test_what_sdks_dump_for_nothing_is_not_sent() -> None:
    nothing: Json = {"refusal": None, "audio": None, "function_call": None, "annotations": []}
    dumped = {"role": "assistant", "content": "a", "tool_calls": None, **nothing}

    said = [{"role": "assistant", "content": "a", "annotations": []}]
    assert said_in("chat", dumped) == said
    assert said_in("chat", {**dumped, "tool_calls": []}) == said


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_an_assistant_refuses(role: str) -> None:
    named = {"role": role, "content": [NO], **({"tool_call_id": "a"} if role == "tool" else {})}

    with pytest.raises(InvalidTurn, match=f"refusal is for role assistant, not {role}"):
        said_in("chat", named)


def test_reasoning_that_was_cut_off_is_left_out_where_nothing_follows_it() -> None:
    reasoning: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
    asked = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    told = {"type": "function_call_output", "call_id": "a", "output": "1"}

    assert said_in("responses", reasoning) == []
    assert said_in("responses", asked, reasoning, told, Q) == [asked, told, Q]
    assert said_in("responses", reasoning, asked, told) == [reasoning, asked, told]


def test_a_message_with_a_status_is_of_responses() -> None:
    item = {**Q, "status": "completed"}

    assert said_in("responses", item) == [item]
    assert said_in("chat", item) == [Q]


IMAGE: Json = {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"content": [IMAGE]}, "image_url"),
        ({"content": None, "audio": {"id": "au"}}, "audio"),
        ({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_an_assistant_cannot_say_in_a_dialect_is_a_line_and_told(
    dialect: str, said: Json, kind: str
) -> None:
    stored = encode_turn(to_turn({"role": "assistant", **said}))[0]
    found = from_chat(json.loads(stored), dialect)

    if dialect == "chat":
        assert {**said, "role": "assistant"} in found.messages
    else:
        assert f"[{kind}, which cannot be shown here]" in json.dumps(found.messages)
        assert found.left_out == (f"parts of type {kind}",)


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (
            {"file_data": "data:text/csv;base64,YSwx", "filename": "a.csv"},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a,1"},
                "title": "a.csv",
            },
        ),
        (
            {"file_data": "JVBERi0xLjQ="},
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERi0xLjQ=",
                },
            },
        ),
        (
            {"file_data": "data:image/png;base64,AAAA"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
        ),
        (
            {"file_data": "data:application/zip;base64,AAAA"},
            {"type": "text", "text": "[file, which cannot be shown here]"},
        ),
        ({"file_id": "file-1"}, {"type": "text", "text": "[file, which cannot be shown here]"}),
    ],
)
def test_anthropic_gets_files_that_it_takes_and_a_line_for_others(file: Json, block: Json) -> None:
    (found,) = said_in("anthropic", {"role": "user", "content": [{"type": "file", "file": file}]})

    assert found["content"] == [block]


def test_a_result_has_only_texts_and_images_in_chat() -> None:
    parts = [{"type": "file", "file": PDF}, IMAGE]
    told = {"role": "tool", "tool_call_id": "a", "content": parts}

    (_, found) = said_in("chat", {"role": "assistant", "content": None, "tool_calls": [CALL]}, told)

    line = {"type": "text", "text": "[file, which cannot be shown here]"}
    assert found["content"] == [line, IMAGE]


def test_a_name_is_one_that_openai_takes() -> None:
    assert said_in("chat", {**Q, "name": "Bob <b> Smith"}) == [{**Q, "name": "Bob__b__Smith"}]
    assert said_in("chat", {**Q, "name": ""}) == [Q]


def test_a_custom_tools_call_says_what_it_was_asked_in_every_dialect() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "my sh", "input": "ls"}}
    turn: list[Json] = [
        {"role": "assistant", "content": None, "tool_calls": [custom]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]

    assert said_in("chat", *turn)[0]["tool_calls"][0]["custom"]["name"] == "my_sh"
    (used,) = said_in("anthropic", *turn)[0]["content"]
    assert (used["name"], used["input"]) == ("my_sh", {"input": "ls"})
    asked = said_in("responses", *turn)[0]
    assert (asked["name"], asked["arguments"]) == ("my_sh", '{"input":"ls"}')


def test_a_call_without_a_type_has_one_in_chat() -> None:
    untyped = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [untyped]}
    told = {"role": "tool", "tool_call_id": "a", "content": "1"}

    assert said_in("chat", asked, told)[0]["tool_calls"] == [{"type": "function", **untyped}]


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
def test_a_thought_that_was_cut_off_is_not_the_last_for_anthropic(kind: str) -> None:
    thought = {"type": kind, "thinking": "h", "signature": "s"}
    cut = {"role": "assistant", "content": [{"type": "text", "text": "a"}, thought]}

    assert said_in("anthropic", cut)[0]["content"] == [*cut["content"], *EMPTY]
