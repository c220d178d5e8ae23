"""What holds of messages shortened inside."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.strategies import Message, messages
from turnmill.contract.shorten import shorten
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count_messages

some = st.lists(messages(60), min_size=1, max_size=5)
budgets = st.integers(0, 800)
quickly = settings(deadline=None)


@quickly
@given(some, budgets)
def test_what_is_shortened_fits(given_messages: list[Message], limit: int) -> None:
    shortened = shorten(given_messages, limit, COUNT)

    assert shortened is None or COUNT(shortened) <= limit


@quickly
@given(some)
def test_what_fits_is_not_touched(given_messages: list[Message]) -> None:
    assert shorten(given_messages, COUNT(given_messages), COUNT) == given_messages


@quickly
@given(some, budgets)
def test_roles_and_call_ids_are_untouched(given_messages: list[Message], limit: int) -> None:
    def shape(message: Message) -> object:
        calls = [(c["id"], c["function"]["name"]) for c in message.get("tool_calls") or ()]
        return message["role"], message.get("tool_call_id"), calls, list(message)

    shortened = shorten(given_messages, limit, COUNT)

    if shortened is not None:
        assert list(map(shape, shortened)) == list(map(shape, given_messages))


@quickly
@given(some, budgets)
def test_arguments_stay_valid_json(given_messages: list[Message], limit: int) -> None:
    shortened = shorten(given_messages, limit, COUNT) or []

    for message in shortened:
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])


@quickly
@given(some, budgets)
def test_a_shortened_message_says_so(given_messages: list[Message], limit: int) -> None:
    shortened = shorten(given_messages, limit, COUNT) or given_messages

    for before, after in zip(given_messages, shortened, strict=True):
        assert after == before or "removed" in json.dumps(after)


@quickly
@given(some, budgets)
def test_the_messages_given_are_not_changed(given_messages: list[Message], limit: int) -> None:
    before = json.dumps(given_messages)

    shorten(given_messages, limit, COUNT)

    assert json.dumps(given_messages) == before
