"""Strands' messages as chat messages, and back. Pure.

A chat message has no field for reasoning, cache points and most media, so they are left out; a
message that the context shows word for word keeps them, for it goes back as it was.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from strands.types.content import ContentBlock, Message, Role
from strands.types.tools import ToolResultStatus

from turnmill.contract.context import JsonMessage
from turnmill.integrations.originals import key

__all__ = ["from_chat", "is_made", "name_all", "to_chat"]

_MADE: Final = "turnmill"
"""In the custom metadata of a message that stands for others; Strands sends no metadata."""

_UNSAID: Final = frozenset({"reasoningContent", "cachePoint"})


def is_made(message: Message) -> bool:
    """Whether the message was made here of a context, and is nobody's own."""
    return bool(((message.get("metadata") or {}).get("custom") or {}).get(_MADE))


def name_all(messages: Sequence[Message]) -> list[str]:
    """The tracking ids of the messages; one without gets the same in every process."""
    for at, message in enumerate(messages):
        if not message.get("tracking_id"):
            message["tracking_id"] = _id({"at": at, "role": message["role"], **_keyed(message)})
    return [message["tracking_id"] for message in messages]


def _keyed(message: Message) -> JsonMessage:
    return {"messages": to_chat(message)}


def _id(content: JsonMessage) -> str:
    return str(uuid.UUID(key(content)[:32], version=4))


def to_chat(message: Message) -> list[JsonMessage]:
    """The message as messages of the chat API: each tool result in one of its own, first.

    Reasoning and cache points are left out. Audio, video and documents become a line of text. A
    message that has nothing else gives none.
    """
    said: list[JsonMessage] = []
    calls: list[JsonMessage] = []
    results: list[JsonMessage] = []
    for block in message["content"]:
        if "toolUse" in block:
            calls.append(_call(block["toolUse"]))
        elif "toolResult" in block:
            results.append(_result(block["toolResult"]))
        elif _UNSAID.isdisjoint(block):
            said.append(_part(block))
    if not said and not calls:
        return results
    spoken: JsonMessage = {"role": message["role"], "content": _content(said) or None}
    return [*results, {**spoken, "tool_calls": calls} if calls else spoken]


def _call(use: Any) -> JsonMessage:
    function = {"name": use["name"], "arguments": json.dumps(use["input"], default=str)}
    return {"id": use["toolUseId"], "type": "function", "function": function}


def _result(result: Any) -> JsonMessage:
    told: JsonMessage = {
        "role": "tool",
        "tool_call_id": result["toolUseId"],
        "content": _content([_part(item) for item in result["content"]]),
    }
    return {**told, "status": "error"} if result.get("status") == "error" else told


def _content(parts: list[JsonMessage]) -> str | list[JsonMessage]:
    """The parts, or their text where they are no more than one."""
    is_text = [part["type"] for part in parts] in ([], ["text"])
    return "".join(part["text"] for part in parts) if is_text else parts


def _part(block: Any) -> JsonMessage:
    text = ""
    match block:
        case {"text": str(said)}:
            text = said
        case {"json": value}:
            text = json.dumps(value, default=str)
        case {"image": {"format": kind, "source": {"bytes": bytes(data)}}}:
            # Canonical base64 without line breaks: what turnmill keeps once per content.
            url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
            return {"type": "image_url", "image_url": {"url": url}}
        case {"guardContent": {"text": {"text": str(said)}}}:
            text = said
        case {"citationsContent": {"content": [*cited]}}:
            text = "".join(str(each.get("text") or "") for each in cited)
        case _:
            text = f"[{next(iter(block), 'nothing')}, not kept]"
    return {"type": "text", "text": text}


def from_chat(messages: Iterable[JsonMessage]) -> list[Message]:
    """The chat messages as Strands' messages, marked; what one role says in a row is one."""
    made: list[Message] = []
    for message in messages:
        role: Role = "assistant" if message["role"] == "assistant" else "user"
        if made and made[-1]["role"] == role:
            made[-1]["content"] += _blocks(message)
        else:
            made.append({"role": role, "content": _blocks(message)})
    for each in made:
        each["metadata"] = {"custom": {_MADE: True}}
        each["tracking_id"] = _id({"role": each["role"], **_keyed(each)})
    return made


def _blocks(message: JsonMessage) -> list[ContentBlock]:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    shown = [_block(part) for part in parts if part.get("text") != ""]
    if message["role"] == "tool":
        status: ToolResultStatus = "error" if message.get("status") == "error" else "success"
        call_id = message["tool_call_id"]
        return [{"toolResult": {"toolUseId": call_id, "status": status, "content": shown}}]
    return [*shown, *map(_use, message.get("tool_calls") or ())]


def _use(call: JsonMessage) -> ContentBlock:
    function = call["function"]
    try:
        given = json.loads(function["arguments"])
    except ValueError:
        given = {}  # shortened
    return {"toolUse": {"toolUseId": call["id"], "name": function["name"], "input": given}}


def _block(part: JsonMessage) -> Any:
    if part["type"] != "image_url":
        return {"text": str(part.get("text") or f"[{part['type']}, not kept]")}
    url = part["image_url"]["url"]
    head, _, data = url.partition(";base64,")
    if not data:
        return {"text": f"[image at {url}]"}
    kind = head.removeprefix("data:image/")
    return {"image": {"format": kind, "source": {"bytes": base64.b64decode(data)}}}
