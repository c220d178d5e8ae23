"""A context as the contents of a request, without a model or Redis."""

from __future__ import annotations

import pytest

pytest.importorskip("google.adk")

from google.adk.events.event import Event
from google.adk.flows.llm_flows.contents import _present_other_agent_message
from google.genai import types

from turnmill.integrations.google_adk.messages import to_chat
from turnmill.integrations.google_adk.plugin import is_legal, restore


def thought_event() -> Event:
    parts = [
        types.Part(text="I look it up.", thought=True),
        types.Part(text="At pier 3.", thought_signature=b"s1"),
    ]
    return Event(id="e2", author="clerk", content=types.Content(role="model", parts=parts))


def user_event(said: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=said)])
    return Event(id=said, author="user", content=content)


def test_a_turn_that_is_word_for_word_is_the_very_content_that_adk_made() -> None:
    events = [user_event("Where?"), thought_event(), user_event("And now?")]
    contents = [event.content for event in events if event.content]
    context = [
        {"role": "user", "content": "Context summary: ships were looked up."},
        *[message for event in events[1:] for message in to_chat(event)],
    ]

    made = restore(contents, events, context, "clerk")

    assert made[0].parts is not None
    assert made[0].parts[0].text == "Context summary: ships were looked up."
    assert made[1] is contents[1]
    assert made[2] is contents[2]
    assert len(made) == 3


def test_what_another_agent_said_is_told_in_adks_words() -> None:
    event = thought_event()
    told = _present_other_agent_message(event)
    assert told is not None

    made = restore([], [], to_chat(event), "chief")

    assert made == [told.content]


def test_ids_are_left_out_where_adk_leaves_them_out() -> None:
    called = types.Part(function_call=types.FunctionCall(id="adk-1", name="f", args={"x": 1}))
    answer = types.FunctionResponse(id="adk-1", name="f", response={"result": "yes"})
    events = [
        Event(author="clerk", content=types.Content(role="model", parts=[called])),
        Event(
            author="clerk",
            content=types.Content(role="user", parts=[types.Part(function_response=answer)]),
        ),
    ]
    contents = [event.content.model_copy(deep=True) for event in events if event.content]
    for content in contents:
        for part in content.parts or ():
            if part.function_call:
                part.function_call.id = None
            if part.function_response:
                part.function_response.id = None
    context = [message for event in events for message in to_chat(event)]
    shortened = [context[0], {**context[1], "content": "[left out]"}]

    assert restore(contents, events, context, "clerk") == contents
    made = restore(contents, events, shortened, "clerk")
    assert made[0] is contents[0]
    assert is_legal(made)
    assert not is_legal(made[:1])
    assert not is_legal(made[1:])
