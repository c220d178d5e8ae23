"""Cache marks for Anthropic: one behind the head, none elsewhere, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.dialects import anthropic_turns
from tests.unit.dialects.test_round_trips import stored
from turnmill.dialects.convert import from_chat
from turnmill.dialects.legality import violations

Json = dict[str, Any]
MARK = {"type": "ephemeral"}
SUMMARY = {"role": "user", "content": "[Summary of the conversation so far]\nAll is well.\n[End]"}


def blocks(messages: list[Json]) -> list[Json]:
    """All blocks in order, those in a result before it: where its mark is, it ends."""
    found: list[Json] = []
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            found += [*blocks([block]), block]
    return found


def marks(messages: list[Json]) -> int:
    return sum("cache_control" in block for block in blocks(messages))


def without_marks(messages: list[Json]) -> list[Json]:
    found = json.loads(json.dumps(messages))
    for block in blocks(found):
        block.pop("cache_control", None)
    for message in found:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return list(found)


@given(anthropic_turns(), st.data())
def test_one_mark_stands_behind_the_head_and_no_block_changes(
    turns: list[list[Json]], data: st.DataObject
) -> None:
    chat = stored(turns)
    head = data.draw(st.integers(0, len(chat)))

    found = from_chat(chat, "anthropic", head).messages

    assert marks(found) <= 1
    assert without_marks(found) == without_marks(from_chat(chat, "anthropic").messages)
    assert violations(found, "anthropic") == []
    assert not any(
        "cache_control" in block
        for block in blocks(found)
        if block["type"] in ("thinking", "redacted_thinking")
    )


@given(anthropic_turns())
def test_the_mark_stays_where_it_is_as_turns_are_added(turns: list[list[Json]]) -> None:
    whole = from_chat([SUMMARY, *stored(turns)], "anthropic", 1).messages
    before = from_chat([SUMMARY], "anthropic", 1).messages

    assert whole[: len(before)] == before
    assert before[0]["content"][-1]["cache_control"] == MARK
    assert marks(whole) == 1


@given(anthropic_turns())
def test_without_the_policys_wish_the_agents_last_two_marks_stay(turns: list[list[Json]]) -> None:
    pushed = [message for turn in turns for message in turn]
    found = from_chat(stored(turns), "anthropic").messages

    places = [at for at, block in enumerate(blocks(pushed)) if "cache_control" in block]
    kept = [at for at, block in enumerate(blocks(found)) if "cache_control" in block]

    assert kept == places[-2:]
    assert without_marks(found) == without_marks(pushed)
