"""Items of the OpenAI Responses API as chat messages.

What a model put out in a row becomes one assistant message: what it said, and its calls.
Reasoning, compactions and what OpenAI's own tools did are carried along as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.dialects.native import CALL, TEXT, refuse, with_native
from turnmill.dialects.types import (
    RESPONSES_CALLS,
    RESPONSES_ITEMS,
    RESPONSES_OPAQUE,
    RESPONSES_PARTS,
    RESPONSES_RESULTS,
)

__all__ = ["to_chat"]

_KNOWN_ITEMS: Final = RESPONSES_ITEMS | {"message"}
_KNOWN_PARTS: Final = RESPONSES_PARTS | {"refusal", "input_audio"}
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_CALL_FIELDS: Final = frozenset({"type", "call_id", "name", "arguments"})
_BESIDE: Final = frozenset({"id", "status"})
_WITH_PARTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def to_chat(items: Sequence[Mapping[str, Any]]) -> list[JsonMessage]:
    """The items as chat messages.

    Raises:
        InvalidTurn: an item or a part is of no known type or lacks what its type needs; names it.
    """
    made: list[JsonMessage] = []
    output = _Output()
    for at, item in enumerate(items):
        where, kind = f"items[{at}]", item.get("type", "message")
        if kind == "message" and item.get("role") == "assistant":
            output.say(item, where)
        elif kind in RESPONSES_CALLS:
            output.call(item, where)
        elif kind in RESPONSES_OPAQUE:
            output.order.append(dict(item))
        else:
            made += output.taken()
            output = _Output()
            made.append(_input(item, kind, where))
    return [*made, *output.taken()]


def _input(item: Mapping[str, Any], kind: object, where: str) -> JsonMessage:
    if kind in RESPONSES_RESULTS:
        return _result(item, where)
    if kind != "message" or "role" not in item:
        raise refuse(where, kind, _KNOWN_ITEMS)
    message: JsonMessage = {"role": item["role"], "content": _content(item, where)}
    others = {name: value for name, value in item.items() if name not in _MESSAGE_FIELDS}
    return with_native(message, "responses", fields=others)


def _result(item: Mapping[str, Any], where: str) -> JsonMessage:
    # What a local shell gave back is known by the id of its call.
    call_id, output = item.get("call_id", item.get("id")), item.get("output")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidTurn(f"{where}.call_id: an output needs the id of its call")
    kept = {name: value for name, value in item.items() if name not in {"call_id", "output"}}
    content: Any = output
    if isinstance(output, list) and kept["type"] in _WITH_PARTS:
        content = [_part(part, f"{where}.output[{at}]") for at, part in enumerate(output)]
    elif isinstance(output, Mapping) and isinstance(output.get("image_url"), str):
        content = [{"type": "image_url", "image_url": {"url": output["image_url"]}}]
        kept["screen"] = {name: item for name, item in output.items() if name != "image_url"}
    elif not isinstance(output, str):  # what a shell gave back
        content, kept["is_json"] = encode_json(output).decode(), True
    if "call_id" not in item:
        kept["by_id"] = True
    if kept["type"] == "function_call_output":
        del kept["type"]
    message: JsonMessage = {"role": "tool", "tool_call_id": call_id, "content": content}
    return with_native(message, "responses", fields=kept)


def _content(item: Mapping[str, Any], where: str) -> Any:
    content = item.get("content")
    if not isinstance(content, list):
        return content
    return [_part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]


def _part(part: object, where: str) -> JsonMessage:
    if not isinstance(part, Mapping):
        raise InvalidTurn(f"{where}: must be a part with a type, got {type(part).__name__}")
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return _of("text", text, part, {"type", "text"})
        case {"type": "input_image", "image_url": str(url)}:
            image = {"url": url, **({"detail": part["detail"]} if "detail" in part else {})}
            return _of("image_url", image, part, {"type", "image_url", "detail"})
        case {"type": "input_file", "file_data": str(data)}:
            return _of("file", {"file_data": data}, part, {"type", "file_data"})
        case {"type": "refusal" | "input_audio" | "text" | "input_image" | "input_file"}:
            return dict(part)
    raise refuse(where, part.get("type"), _KNOWN_PARTS)


def _of(kind: str, value: Any, part: Mapping[str, Any], said: set[str]) -> JsonMessage:
    others = {name: item for name, item in part.items() if name not in said}
    return with_native({"type": kind, kind: value}, "responses", fields=others)


class _Output:
    """What a model put out in a row, as one assistant message."""

    def __init__(self) -> None:
        self.order: list[Any] = []
        self._parts: list[JsonMessage] = []
        self._calls: list[JsonMessage] = []
        self._plain: list[JsonMessage] = []

    def say(self, item: Mapping[str, Any], where: str) -> None:
        content = _content(item, where)
        others = {name: value for name, value in item.items() if name not in _MESSAGE_FIELDS}
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        self._parts += parts
        is_text = isinstance(content, str)
        self.order.append({TEXT: len(parts), "fields": others, "is_text": is_text})
        if is_text and not others:
            self._plain.append({"role": "assistant", "content": content})

    def call(self, item: Mapping[str, Any], where: str) -> None:
        call_id, kind = item.get("call_id"), item["type"]
        if not isinstance(call_id, str) or not call_id:
            raise InvalidTurn(f"{where}.call_id: a {kind} needs an id")
        others = {name: item[name] for name in item.keys() & _BESIDE}
        if kind == "function_call":
            for field in ("name", "arguments"):
                if not isinstance(item.get(field), str):
                    raise InvalidTurn(f"{where}.{field}: a {kind} needs it as a str")
            function = {"name": item["name"], "arguments": item["arguments"]}
            others |= {name: item[name] for name in item.keys() - _CALL_FIELDS}
        else:
            # What it does stands among the arguments, so that it can be read and summarized.
            said = {name: item[name] for name in item.keys() - _CALL_FIELDS - _BESIDE}
            arguments = encode_json(dict(sorted(said.items()))).decode()
            function = {"name": item.get("name") or kind, "arguments": arguments}
            others["type"] = kind
        call = {"id": call_id, "type": "function", "function": function}
        self._calls.append(with_native(call, "responses", fields=others))
        self.order.append(f"{CALL}{call_id}")

    def taken(self) -> list[JsonMessage]:
        """The messages: one, or those that say no more than a chat message does."""
        if len(self._plain) == len(self.order):
            return self._plain
        said: JsonMessage = {"role": "assistant", "content": self._parts or None}
        if self._calls:
            said["tool_calls"] = self._calls
        return [with_native(said, "responses", blocks=self.order)]
