"""Which requests a context states: the first, and what is worked on now; nobody else's words."""

from __future__ import annotations

from typing import Any

import pytest

from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.memories_message import MEMORIES
from turnmill.contract.names import Seq
from turnmill.contract.open_requests import OpenRequest
from turnmill.contract.rules import Mark
from turnmill.dialects.convert import in_chat
from turnmill.open_requests.find import open_requests
from turnmill.open_requests.speech import opening_turns
from turnmill.rules.standing import Said

TASK = "Fix the crash in parse_header and make sure that no other test starts to fail."
MORE = "Please write a short changelog entry for it as well, and mention the ticket it closes."


def turns(*messages: JsonMessage) -> list[Said]:
    return [Said(Seq(at), [message]) for at, message in enumerate(messages, 1)]


def user(text: str, **more: Any) -> JsonMessage:
    return {"role": "user", "content": text, **more}


def says(text: str) -> JsonMessage:
    return {"role": "assistant", "content": text}


def calls(name: str = "run") -> list[JsonMessage]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]


def found(*messages: JsonMessage, stored: StoredContext = EMPTY) -> list[tuple[int, bool]]:
    return [(each.seq, each.earlier) for each in open_requests(stored, turns(*messages))]


def test_the_first_thing_said_to_an_agent_with_tools_is_its_request() -> None:
    asked = open_requests(EMPTY, turns(user(TASK), *calls(), *calls()))

    assert [(each.seq, each.text, each.first) for each in asked] == [(1, TASK, True)]


def test_work_that_a_user_only_shows_is_no_part_of_the_request() -> None:
    work = "ISSUE: shop.py rounds.\n```\nopen shop.py\n```\n31:x = 1\n```\nedit 31:31\n```\nSaved."
    shown = f"--- START OF EXAMPLE ---\n{work}\n--- END OF EXAMPLE ---"

    [asked] = open_requests(EMPTY, turns(user(f"Work as shown.\n{shown}\n{TASK}"), *calls()))

    assert asked.text == f"Work as shown.\n[A demonstration of 9 lines stood here.]\n{TASK}"


def test_an_agent_may_greet_before_it_is_asked() -> None:
    assert found(says("Hello! What can I do for you today?"), user("Book a flight."), *calls()) == [
        (2, False)
    ]


def test_messages_before_the_first_answer_open_a_session_together() -> None:
    shown, asked, plan = user("Here is an example."), user(TASK), says("I look at it.")

    assert opening_turns([[shown], [asked], [plan], [user("ok")]]) == 2
    assert opening_turns([[user(f"{at}")] for at in range(5)] + [[plan]]) == 3
    assert opening_turns([[shown], [asked]]) == 0
    assert opening_turns([calls(), [asked], [plan]]) == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "assistant", "content": "Fixed."},
        {"role": "assistant", "content": [{"type": "text", "text": "Fixed.", "citations": None}]},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Fixed.", "annotations": []}],
        },
    ],
    ids=["chat", "anthropic", "responses"],
)
def test_an_answer_ends_a_request_in_any_dialect(answer: JsonMessage) -> None:
    _, answered = in_chat([answer])

    assert found(user(TASK), *calls(), *answered, user(MORE), *calls()) == [(1, True), (5, False)]


def test_what_the_user_adds_while_the_agent_works_belongs_to_it() -> None:
    assert found(user(TASK), *calls(), user(MORE), *calls()) == [(1, False), (4, False)]


def test_an_answer_to_the_agents_question_belongs_to_it() -> None:
    asked = found(user(TASK), *calls(), says("Which branch should I use?"), user(MORE), *calls())

    assert asked == [(1, False), (5, False)]


def test_a_new_request_after_the_agent_has_ended_replaces_all_but_the_first() -> None:
    done = says("The crash is fixed and all tests pass.")
    other = (
        "Now move the parser into a package of its own, with tests beside it, and document that."
    )

    asked = found(user(TASK), *calls(), done, user(MORE), *calls(), done, user(other), *calls())

    assert asked == [(1, True), (9, False)]


def test_a_few_words_lean_on_the_request_before_them() -> None:
    done = says("The crash is fixed.")

    assert found(user(TASK), *calls(), done, user("Thanks, now the docs."), *calls()) == [
        (1, False),
        (5, False),
    ]


@pytest.mark.parametrize(
    "outputs",
    [
        [
            "<returncode>0</returncode>\n<output>\nREADME.md\n</output>",
            "<returncode>1</returncode>\n<output>\nFAILED test_a\n</output>",
        ],
        ["OBSERVATION: The page shows three results.", "OBSERVATION: The page shows one result."],
        ["a.py b.py are all the files here\n$", "all of the tests here have passed now\n$"],
        ['{"rows": 3, "note": "all of the tests have passed"}', '["all is well with the tests"]'],
        [
            "EXECUTION RESULT of [bash]:\nthe file was written\n[exit code 0]",
            "EXECUTION RESULT of [edit]:\nthe file was edited\n[exit code 0]",
        ],
    ],
)
def test_output_in_user_messages_is_no_request(outputs: list[str]) -> None:
    action = says("Let me look.\n```\nls\n```")

    assert found(user(TASK), action, user(outputs[0]), action, user(outputs[1]), action) == [
        (1, False)
    ]


def test_nobody_but_the_user_asks() -> None:
    tool = {"role": "tool", "tool_call_id": "c", "content": f"The user demands: {MORE}"}
    recalled = user(MORE, name=MEMORIES)

    assert found(user(TASK), calls()[0], tool, recalled, says(MORE), *calls()) == [(1, False)]


def test_a_rule_laid_down_by_hand_is_no_request() -> None:
    said = turns(user(TASK), *calls())
    said.append(Said(Seq(9), [user("Sundays are sacred.")], Mark(instructs=True)))

    assert [each.seq for each in open_requests(EMPTY, said)] == [1]


def test_in_a_chat_only_a_long_first_message_is_kept() -> None:
    brief = "I want to plan a trip with my family, with these wishes of ours. " * 10

    assert found(user("Hi there!"), says("Hello."), user(MORE), says("Sure.")) == []
    assert found(user(brief), says("Hello."), user(MORE), says("Sure.")) == [(1, False)]


def test_what_a_context_states_stays_as_it_is() -> None:
    stored = StoredContext(
        summary="…", requests=(OpenRequest(seq=Seq(1), text="[… 3 lines left out]", first=True),)
    )

    asked = open_requests(stored, [Said(Seq(9), calls()), Said(Seq(12), [user("Go on.")])])

    assert asked[0] == stored.requests[0]
    assert [each.seq for each in asked] == [1, 12]
