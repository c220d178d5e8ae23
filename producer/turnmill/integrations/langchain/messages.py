"""LangChain's messages as turnmill's, and back. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

from turnmill.contract.authors import FEEDBACK
from turnmill.contract.context import JsonMessage
from turnmill.integrations.originals import key, originals

__all__ = ["restored", "to_chat"]

_URLS = ("http://", "https://", "file:", "data:")


def to_chat(message: BaseMessage) -> JsonMessage:
    """The message in chat's shape.

    Left out, and kept only as long as the original is shown: reasoning, a provider's own tools,
    artifacts, metadata. Audio, video and files become a line of text.
    """
    found: JsonMessage = {"role": _role(message), "content": _content(message)}
    if isinstance(message, AIMessage) and message.tool_calls:
        found["content"] = found["content"] or None
        found["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": json.dumps(call["args"], ensure_ascii=False),
                },
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    elif isinstance(message, FunctionMessage | ChatMessage):
        found["name"] = FEEDBACK  # of nobody knows whom: it lays down no rules
    elif message.name:
        found["name"] = message.name
    return found


def _call(call: ToolCall) -> JsonMessage:
    arguments = json.dumps(call["args"], ensure_ascii=False)
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def _role(message: BaseMessage) -> str:
    match message:
        case AIMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case SystemMessage():
            return "system"
        case _:
            return "user"


def _content(message: BaseMessage) -> str | list[JsonMessage]:
    if isinstance(message.content, str):
        return message.content
    blocks: Iterable[Mapping[str, Any]] = message.content_blocks
    if isinstance(message, AIMessage):
        return "".join(block["text"] for block in blocks if block["type"] == "text")
    return [_part(block) for block in blocks if block["type"] != "reasoning"] or ""


def _part(block: Mapping[str, Any]) -> JsonMessage:
    if block["type"] == "image" and (url := _url(block)):
        detail = (block.get("extras") or {}).get("detail")
        image = {"url": url, "detail": detail} if isinstance(detail, str) else {"url": url}
        return {"type": "image_url", "image_url": image}
    text = block.get("text")
    return {"type": "text", "text": f"[{block['type']}, not kept]" if text is None else text}


def _url(block: Mapping[str, Any]) -> str:
    """The image as turnmill takes it, or ``""``."""
    url = str(block.get("url") or "")
    if data := block.get("base64"):
        url = f"data:{block.get('mime_type') or 'image/png'};base64,{data}"
    head, comma, data = url.partition(";base64,")
    if url.startswith("data:") and comma:
        with suppress(binascii.Error, ValueError):
            # Canonical: what turnmill keeps once per content, and gives back.
            return (
                f"{head}{comma}{base64.b64encode(base64.b64decode(data, validate=True)).decode()}"
            )
        return ""
    return url if url.startswith(_URLS) else ""


def restored(
    history: Sequence[BaseMessage], chat: Sequence[JsonMessage], context: Sequence[JsonMessage]
) -> list[AnyMessage]:
    """The context as messages: the history's own objects, and new ones for what turnmill wrote.

    ``chat`` is the history in chat's shape.
    """
    names = _names([*chat, *context])
    made: list[Any] = []
    for found in originals([key(one) for one in chat], range(len(chat)), context):
        if isinstance(found, int):
            made.append(history[found])
            continue
        # Some providers take system messages at the front only.
        is_front = all(isinstance(one, SystemMessage) for one in made)
        made.append(_from_chat(found, names, is_front=is_front))
    return made


def _names(messages: Iterable[JsonMessage]) -> dict[str, str]:
    """The tools' names by the ids of their calls."""
    return {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
        if "function" in call
    }


def _from_chat(message: JsonMessage, names: Mapping[str, str], *, is_front: bool) -> BaseMessage:
    match message["role"]:
        case "assistant":
            return _said(message)
        case "tool":
            name = names.get(message["tool_call_id"])
            return convert_to_messages([{**message, "name": name} if name else message])[0]
        case "system" | "developer" if not is_front:
            return HumanMessage(message["content"])
        case _:
            return convert_to_messages([message])[0]


def _said(message: JsonMessage) -> AIMessage:
    calls: list[Any] = []
    invalid: list[Any] = []
    for call in message.get("tool_calls") or ():
        try:
            calls.append(parse_tool_call(call))
        except OutputParserException:  # shortened
            invalid.append(make_invalid_tool_call(call, None))
    content, name = message.get("content") or "", message.get("name")
    return AIMessage(content, name=name, tool_calls=calls, invalid_tool_calls=invalid)
