"""What the schemas of an agent's tools cost in tokens, in the formats of three APIs.

The formula. A request with tools costs 12 more (OpenAI cookbook, "How to count tokens with
tiktoken", section 7, for gpt-4o), and for each function or custom tool the sum of

    7                                   opening it (cookbook)
    tokens(name:description)            (cookbook)
    3                                   when it has parameters (cookbook)
    3 + tokens(name:type:description)   per parameter (cookbook)
    3 + tokens(value)                   per value of an enum (cookbook; it takes 3 off once)
    3 + tokens(keyword) + tokens(JSON)  per keyword of a schema besides, such as ``items``

The cookbook knows no nested schemas: their JSON is longer than what a provider makes of it, so the
sum is never below the cookbook's. A tool without a schema of its own, such as web search, costs
1,000 and its JSON: providers document 245 to 735 for theirs, or nothing. Tools of Anthropic's API
cost 346 more, for the system prompt that the provider adds (its guide "Tool use with Claude", the
table of Claude 4 models).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import decode_json, encode_json, is_deep
from turnmill.contract.errors import InvalidInput
from turnmill.contract.estimate import CountText, bound_tokens

Tools = Sequence[Mapping[str, Any]]
"""Schemas as a request has them: OpenAI's of both APIs, or Anthropic's."""

MAX_TOOLS_BYTES: Final = 1024 * 1024
"""The longest JSON of tools accepted."""

_REQUEST: Final = 12
_OPENING: Final = 7
_PARAMETERS: Final = 3
_ITEM: Final = 3
_WITHOUT_SCHEMA: Final = 1000
_ANTHROPIC: Final = 346
_ANTHROPIC_TYPE = re.compile(r"_\d{8}\Z")
_SCHEMAS: Final = ("parameters", "input_schema")
_UNSEEN: Final = frozenset({"type", "cache_control", "strict"})
"""What tells an API how to take a tool, and not the model."""


def tools_body(tools: Tools) -> bytes:
    """The tools as they are stored; empty for none.

    Raises:
        InvalidInput: not a list of tools, or too much of it.
    """
    if not isinstance(tools, list | tuple):
        raise InvalidInput(f"tools: must be a list, got {type(tools).__name__}")
    for at, tool in enumerate(tools):
        if not isinstance(tool, Mapping) or not isinstance(
            tool.get("type") or tool.get("name"), str
        ):
            raise InvalidInput(f"tools[{at}]: must be an object with a type or a name")
    if is_deep(tools):
        raise InvalidInput("tools: nested too deep")
    try:
        body = encode_json(tools) if tools else b""
    except (TypeError, ValueError):
        raise InvalidInput("tools: not JSON") from None
    if len(body) > MAX_TOOLS_BYTES:
        raise InvalidInput(f"tools: {len(body)} bytes of JSON; at most {MAX_TOOLS_BYTES}")
    return body


def bound_tools(body: bytes, bound: Callable[[bytes], int] = bound_tokens) -> int:
    """An upper bound of what ``count_tools`` says, without a vocabulary: of texts by ``bound``."""
    return count_tools(lambda text: bound(text.encode("utf-8", "replace")), body)


def count_tools(count: CountText, body: bytes) -> int:
    """Tokens of stored tools by the formula above; 0 for none."""
    if not body:
        return 0
    tools = decode_json(body)
    tokens = _REQUEST + (_ANTHROPIC if any(map(_is_anthropic, tools)) else 0)
    return tokens + sum(_tool(count, tool) for tool in tools)


def _is_anthropic(tool: Mapping[str, Any]) -> bool:
    return "input_schema" in tool or bool(_ANTHROPIC_TYPE.search(str(tool.get("type"))))


def _tool(count: CountText, tool: Mapping[str, Any]) -> int:
    kind = tool.get("type")
    inside = tool.get(kind) if kind in ("function", "custom") else None
    own: Mapping[str, Any] = inside if isinstance(inside, Mapping) else tool
    if kind not in ("function", "custom") and not any(name in own for name in _SCHEMAS):
        return _WITHOUT_SCHEMA + count(_text(tool))
    tokens = _OPENING + count(f"{own.get('name')}:{own.get('description') or ''}")
    tokens += sum(_schema(count, own[name]) for name in _SCHEMAS if name in own)
    said = {"name", "description", *_SCHEMAS, *_UNSEEN}
    return tokens + sum(_others(count, own, said))


def _schema(count: CountText, schema: object) -> int:
    if not isinstance(schema, Mapping):
        return count(_text(schema))
    found = schema.get("properties")
    parameters = found if isinstance(found, Mapping) else {}
    tokens = _PARAMETERS if parameters else 0
    tokens += sum(_parameter(count, name, one) for name, one in parameters.items())
    said = {"type", "required", *(["properties"] if parameters else [])}
    return tokens + sum(_others(count, schema, said))


def _parameter(count: CountText, name: str, schema: object) -> int:
    if not isinstance(schema, Mapping):
        return _ITEM + count(f"{name}:{_text(schema)}")
    kind, values = schema.get("type"), schema.get("enum")
    tokens = _ITEM + count(f"{name}:{_text(kind)}:{schema.get('description') or ''}")
    if isinstance(values, list):
        tokens += sum(_ITEM + count(_text(value)) for value in values)
    said = {"type", "description", *(["enum"] if isinstance(values, list) else [])}
    return tokens + sum(_others(count, schema, said))


def _others(count: CountText, holder: Mapping[str, Any], said: set[str]) -> Iterator[int]:
    for name, value in holder.items():
        if name not in said and value is not None:
            yield _ITEM + count(name) + count(_text(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()
