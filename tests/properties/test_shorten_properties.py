"""What holds of messages shortened inside."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.strategies import Message, messages
from turnmill.contract.shorten import shorten
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count_messages

given_messages = st.lists(messages(60), min_size=1, max_size=5)


def shape(message: Message) -> object:
    """What nothing may change."""
    calls = [(c["id"], c["function"]["name"]) for c in message.get("tool_calls") or ()]
    return message["role"], message.get("tool_call_id"), calls, list(message)


@settings(deadline=None, max_examples=300)
@given(given_messages, st.integers(0, 800))
def test_what_is_shortened_fits_says_so_and_is_a_message_as_before(
    whole: list[Message], limit: int
) -> None:
    before = json.dumps(whole)

    shortened = shorten(whole, limit, COUNT)

    assert json.dumps(whole) == before, "what was given is not changed"
    assert shorten(whole, COUNT(whole), COUNT) == whole, "what fits is not touched"
    if shortened is None:
        return
    assert COUNT(shortened) <= limit
    assert list(map(shape, shortened)) == list(map(shape, whole))
    for old, new in zip(whole, shortened, strict=True):
        assert new == old or "removed" in json.dumps(new)
        for call in new.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])


@given(st.text('ab \\"{}\n', min_size=200, max_size=400), st.integers(20, 200))
def test_arguments_that_are_shortened_again_are_quoted_once_and_say_how_much_is_gone(
    text: str, cap: int
) -> None:
    function = {"name": "write", "arguments": json.dumps({"text": text})}
    call = {"id": "c", "type": "function", "function": function}
    whole: list[Message] = [{"role": "assistant", "content": None, "tool_calls": [call]}]

    def size(messages: Sequence[Message]) -> int:
        return len(messages[0]["tool_calls"][0]["function"]["arguments"])

    once = shorten(whole, size(whole) - 40, size)
    twice = shorten(once or whole, cap, size)

    for shorter in filter(None, (once, twice)):
        said = json.loads(shorter[0]["tool_calls"][0]["function"]["arguments"])["removed"]
        head, _, tail = said.partition("[… ")
        gone, _, end = tail.partition(" characters removed …]")
        assert function["arguments"].startswith(head)
        assert function["arguments"].endswith(end)
        assert len(function["arguments"]) == len(head) + int(gone) + len(end)
