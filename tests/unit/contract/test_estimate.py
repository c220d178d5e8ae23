"""Estimates: bounds that a read relies on, tools, and what reported usage teaches."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import hostile_text
from tests.realdata import names, requires_data, sessions
from turnmill import InvalidInput, Usage
from turnmill.contract.correction import Correction, Told, input_tokens
from turnmill.contract.estimate import bound_tokens, bound_turn
from turnmill.contract.image_tokens import FORMULAS
from turnmill.contract.tools import bound_tools, count_tools, tools_body
from turnmill_worker.tokens import count_request, counter_for

# The producer's estimates: the specification's, and the bound a read relies on.

COUNTERS = (counter_for("o200k_base"), counter_for("cl100k_base"))


def body_of(messages: list[dict[str, Any]]) -> bytes:
    return json.dumps({"messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


def exact_tokens(messages: list[dict[str, Any]]) -> int:
    return max(count_request(counter, messages) for counter in COUNTERS)


@pytest.mark.parametrize("seed", [104, 105])
def test_hostile_text_in_a_message_stays_under_the_bound_of_its_turn(seed: int) -> None:
    for kind, drawn in hostile_text.hostile(random.Random(seed), 300):
        text = drawn.encode("utf-8", "replace").decode()
        messages = [{"role": "user", "content": text}]

        assert bound_turn(body_of(messages)) >= exact_tokens(messages), kind


def test_framing_stays_under_the_bound_of_its_turn() -> None:
    for kind, messages in hostile_text.structures(random.Random(106)):
        assert bound_turn(body_of(messages)) >= exact_tokens(messages), kind


MOST = FORMULAS["gpt-4o"].tokens(0, 0, None)
REFERENCE = "blob:" + "ab" * 32 + ";image/png;1024x768"


def image(url: str, **others: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {**others, "url": url}}


def test_an_inline_image_costs_its_price_not_its_base64() -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 20_000
    messages = [{"role": "user", "content": [{"type": "text", "text": "see"}, *[image(url)] * 2]}]

    bound = bound_turn(body_of(messages))

    assert exact_tokens(messages) <= bound <= 2 * MOST + 150


def test_an_image_referred_to_costs_its_price_wherever_its_url_stands() -> None:
    parts = [image(REFERENCE), image(REFERENCE, detail="low"), image(REFERENCE, more="x")]
    messages = [{"role": "user", "content": parts}]

    bound = bound_turn(body_of(messages))

    assert exact_tokens(messages) <= bound <= 765 + 85 + 765 + 150


@requires_data
@pytest.mark.parametrize("name", names())
def test_every_real_session_stays_under_its_bound_and_near_it(name: str) -> None:
    bounds = exacts = 0
    for session in sessions(name):
        body = body_of(session["messages"])
        bound, exact = bound_turn(body), exact_tokens(session["messages"])
        assert bound >= exact
        bounds, exacts = bounds + bound, exacts + exact

    assert bounds <= 2.5 * exacts


@pytest.mark.parametrize("word", ["Nfuee", "Fhuee", "xwzqkzqkzqkz", "xkzqkzqkzqkq", "jqxzvkwq"])
def test_the_worst_text_that_was_found_costs_at_most_two_and_a_half_bounds(word: str) -> None:
    text = word * (20_000 // len(word))

    assert counter_for("o200k_base").count(text) <= 2.5 * bound_tokens(text.encode())


# What tools cost: never less than the cookbook says, in the formats of three APIs.

count = counter_for().count

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "The city, e.g. San Francisco."},
        "unit": {"type": "string", "description": "Of the answer", "enum": ["c", "f"]},
    },
    "required": ["location"],
}
ABOUT = {"name": "get_weather", "description": "Get the current weather in a given location"}
CHAT = [{"type": "function", "function": {**ABOUT, "parameters": PARAMETERS}}]
RESPONSES = [{"type": "function", **ABOUT, "parameters": PARAMETERS, "strict": True}]
ANTHROPIC = [{**ABOUT, "input_schema": PARAMETERS, "cache_control": {"type": "ephemeral"}}]


def tokens(tools: list[dict[str, Any]]) -> int:
    return count_tools(count, tools_body(tools))


def cookbook(tools: list[dict[str, Any]]) -> int:
    """The cookbook's number for gpt-4o."""
    total = 12
    for tool in tools:
        function = tool["function"]
        total += 7 + count(f"{function['name']}:{function['description'].removesuffix('.')}")
        total += 3 if function["parameters"]["properties"] else 0
        for name, one in function["parameters"]["properties"].items():
            total += 3 + count(f"{name}:{one['type']}:{one['description'].removesuffix('.')}")
            total += sum(3 + count(item) for item in one["enum"]) - 3 if "enum" in one else 0
    return total


def test_a_tool_costs_the_cookbooks_number_or_a_little_more() -> None:
    assert cookbook(CHAT) <= tokens(CHAT) <= cookbook(CHAT) + 5


@pytest.mark.parametrize("tools", [CHAT, RESPONSES, ANTHROPIC, [{"type": "web_search"}]])
def test_the_bound_is_never_below_the_count(tools: list[dict[str, Any]]) -> None:
    body = tools_body(tools * 5)

    assert bound_tools(body) >= count_tools(count, body)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("tools", "must be a list, got str"),
        (["look"], r"tools\[0\]: must be an object with a type or a name"),
        ([{"type": "web_search"}, {"description": "?"}], r"tools\[1\]: must be an object"),
        ([{"name": "x", "input_schema": {"default": object()}}], "not JSON"),
        ([{"name": "x" * (1 << 20)}], "bytes of JSON; at most"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(tools: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        tools_body(tools)


# What is learned from usage: never below what a remembered call would have made of a count.

CALLS = st.lists(st.tuples(st.integers(500, 10**6), st.floats(0.5, 4.0)), min_size=1, max_size=40)


@given(CALLS, st.floats(0.5, 4.0))
def test_a_corrected_count_is_never_below_what_any_of_the_last_calls_was_reported_as(
    calls: list[tuple[int, float]], start: float
) -> None:
    known = Correction(start)
    for counted, ratio in calls:
        known = known.after(int(counted * ratio), counted)

    again = Correction.stored(known.encode(), start)

    assert again == known
    for counted, ratio in calls[-16:]:
        assert known.corrected(counted) >= int(counted * ratio)
    assert known.error is not None
    assert 0 <= known.error < 1


def test_a_read_before_a_commit_tells_nothing_of_the_context_after_it() -> None:
    told = Told(tokens=1000, version=3, seq=7)

    assert told.counted(4, 7, Usage(tail=900), []) is None
    assert told.counted(3, 8, Usage(tail=900), [(9, 50)]) is None
    assert told.counted(3, 5, Usage(tail=900), [(6, 50)]) is None


def test_turns_after_the_read_are_not_part_of_what_was_reported() -> None:
    told = Told(tokens=1000, version=3, seq=7)

    assert told.counted(3, 6, Usage(tail=900), [(7, 50), (8, 100)]) == 803
    assert Told.stored(told.encode()) == told
    assert Told.stored("") is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (1200, 1200),
        ({"prompt_tokens": 1200, "completion_tokens": 5, "total_tokens": 1205}, 1200),
        (SimpleNamespace(prompt_tokens=1200), 1200),
        ({"input_tokens": 1200, "input_tokens_details": {"cached_tokens": 1000}}, 1200),
        (
            {
                "input_tokens": 100,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 1000,
            },
            1200,
        ),
        (SimpleNamespace(input_tokens=1200, cache_read_input_tokens=None), 1200),
        (SimpleNamespace(prompt_token_count=1200), 1200),
    ],
)
def test_usage_is_taken_as_providers_report_it(usage: Any, tokens: int) -> None:
    assert input_tokens(usage) == tokens
