"""What tools cost: never less than the cookbook says, in the formats of three APIs."""

from __future__ import annotations

from typing import Any

import pytest

from turnmill import InvalidInput
from turnmill.contract.tools import bound_tools, count_tools, tools_body
from turnmill_worker.tokens import counter_for

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


def test_the_formats_of_both_openai_apis_cost_the_same() -> None:
    assert tokens(RESPONSES) == tokens(CHAT)


def test_anthropics_format_costs_its_system_prompt_more() -> None:
    assert tokens(ANTHROPIC) == tokens(CHAT) + 346


def test_no_tools_cost_nothing() -> None:
    assert (tools_body([]), tokens([]), bound_tools(b"")) == (b"", 0, 0)


@pytest.mark.parametrize(
    "more",
    [
        {"items": {"type": "object", "properties": {"deep": {"type": "string"}}}},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"pattern": "^[a-z]{2,40}$", "default": "somewhere"},
    ],
)
def test_what_the_cookbook_does_not_know_costs_at_least_its_text(more: dict[str, Any]) -> None:
    properties = {"location": {**PARAMETERS["properties"]["location"], **more}}
    plain = {"location": PARAMETERS["properties"]["location"]}

    def of(found: dict[str, Any]) -> int:
        parameters = {**PARAMETERS, "properties": found}
        return tokens([{"type": "function", "function": {**ABOUT, "parameters": parameters}}])

    assert of(properties) >= of(plain) + sum(count(str(value)) for value in more.values()) // 2


def test_a_tool_that_only_the_provider_knows_costs_more_than_any_documented_one() -> None:
    assert tokens([{"type": "bash_20250124", "name": "bash"}]) > 346 + 735
    assert tokens([{"type": "web_search"}]) > 735


def test_a_custom_tool_costs_its_description_and_grammar() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: WORD+ " * 20}
    custom = {"name": "query", "description": "Runs a query.", "format": grammar}

    inside = tokens([{"type": "custom", "custom": custom}])

    assert inside == tokens([{"type": "custom", **custom}])
    assert inside > count(grammar["definition"])


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


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "x", "input_schema": True},
        {"name": "x", "input_schema": {"properties": []}},
        {"name": "x", "input_schema": {"properties": {"a": True, "b": {"enum": 1}}}},
        {"type": "function", "function": "x"},
        {"type": "function", "function": {"name": None, "description": 7}},
    ],
)
def test_odd_tools_are_counted_all_the_same(tool: dict[str, Any]) -> None:
    assert tokens([tool]) > 12
