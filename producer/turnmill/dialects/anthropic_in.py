"""Messages of the Anthropic API as chat messages.

Text, images and documents become parts; ``tool_use`` a call and ``tool_result`` a message of role
``tool``. Thinking and what Anthropic's own tools did are carried along as they are: their
signatures hold only for the very same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.dialects.native import CALL, TEXT, refuse, with_native
from turnmill.dialects.types import ANTHROPIC_OPAQUE, ANTHROPIC_SHOWN

__all__ = ["to_chat"]

_SAID: Final = ANTHROPIC_OPAQUE | {"text", "tool_use"}
_ASKED: Final = ANTHROPIC_SHOWN | {"text", "tool_result", "image_url", "file"}
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})


def to_chat(message: Mapping[str, Any], where: str = "messages[0]") -> list[JsonMessage]:
    """The message as one or more of the chat API: each result in a message of its own.

    Raises:
        InvalidTurn: a block is of no known type or lacks what its type needs; names it.
    """
    content = message.get("content")
    if not isinstance(content, Sequence) or isinstance(content, str):
        return [dict(message)]
    blocks = [_block(block, f"{where}.content[{at}]") for at, block in enumerate(content)]
    if message.get("role") == "assistant":
        return [_said(blocks, where)]
    return _asked(message, blocks, where)


def _block(block: object, where: str) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise InvalidTurn(f"{where}: must be a block with a type, got {type(block).__name__}")
    return block


def _said(blocks: Sequence[Mapping[str, Any]], where: str) -> JsonMessage:
    parts: list[JsonMessage] = []
    calls: list[JsonMessage] = []
    order: list[Any] = []
    for at, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                parts.append(_part(block, f"{where}.content[{at}]"))
                order.append(TEXT)
            case "tool_use":
                calls.append(_call(block, f"{where}.content[{at}]"))
                order.append(f"{CALL}{block['id']}")
            case kind if kind in ANTHROPIC_OPAQUE:
                order.append(dict(block))
            case kind:
                raise refuse(f"{where}.content[{at}]", kind, _SAID)
    said: JsonMessage = {"role": "assistant", "content": parts or None}
    if calls:
        said["tool_calls"] = calls
    usual = [TEXT] * len(parts) + [f"{CALL}{call['id']}" for call in calls]
    return said if order == usual else with_native(said, "anthropic", blocks=order)


def _call(block: Mapping[str, Any], where: str) -> JsonMessage:
    for field, kind in (("id", str), ("name", str), ("input", Mapping)):
        if not isinstance(block.get(field), kind):
            raise InvalidTurn(f"{where}.{field}: a tool_use block needs a {kind.__name__}")
    function = {"name": block["name"], "arguments": encode_json(block["input"]).decode()}
    call = {"id": block["id"], "type": "function", "function": function}
    others = {name: value for name, value in block.items() if name not in _CALL_FIELDS}
    return with_native(call, "anthropic", fields=others)


def _asked(
    message: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], where: str
) -> list[JsonMessage]:
    results: list[JsonMessage] = []
    parts: list[JsonMessage] = []
    for at, block in enumerate(blocks):
        place = f"{where}.content[{at}]"
        if block.get("type") == "tool_result":
            results.append(_result(block, place))
        else:
            parts.append(_part(block, place))
    if not parts and results:
        return results
    asked = {**message, "content": parts}
    # What stood beside results in one message stands there again.
    return [*results, with_native(asked, "anthropic", joined=bool(results))]


def _result(block: Mapping[str, Any], where: str) -> JsonMessage:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidTurn(f"{where}.tool_use_id: a tool_result block needs the id of its call")
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = enumerate(content)
        content = [_part(_block(p, f"{where}[{at}]"), f"{where}.content[{at}]") for at, p in parts]
    others = {name: value for name, value in block.items() if name not in _RESULT_FIELDS}
    result: JsonMessage = {"role": "tool", "tool_call_id": call_id, "content": content or ""}
    return with_native(result, "anthropic", fields=others, empty="content" not in block)


def _part(block: Mapping[str, Any], where: str) -> JsonMessage:
    kind = block.get("type")
    if kind == "text":
        others = {name: value for name, value in block.items() if name not in {"type", "text"}}
        return with_native({"type": kind, "text": block.get("text")}, "anthropic", fields=others)
    if kind not in {"image_url", "file", *ANTHROPIC_SHOWN}:
        raise refuse(where, kind, _ASKED)
    match kind, block.get("source"):
        case "image", {"type": "base64", "media_type": str(media), "data": str(data)}:
            part = _shown(block, "image_url", {"url": f"data:{media};base64,{data}"})
        case "image", {"type": "url", "url": str(url)}:
            part = _shown(block, "image_url", {"url": url})
        case "document", {"type": "base64", "media_type": str(media), "data": str(data)}:
            part = _shown(block, "file", {"file_data": f"data:{media};base64,{data}"})
        case "document", {"type": "text", "data": str(text)}:
            # Its text can be read, and so be summarized.
            kept = {**block, "source": {**block["source"], "data": ""}}
            part = with_native({"type": "text", "text": text}, "anthropic", fields=kept)
        case _:
            part = dict(block)
    return part


def _shown(block: Mapping[str, Any], kind: str, value: JsonMessage) -> JsonMessage:
    others = {name: item for name, item in block.items() if name not in {"type", "source"}}
    part: JsonMessage = {"type": kind, kind: value}
    return with_native(part, "anthropic", fields=others)
