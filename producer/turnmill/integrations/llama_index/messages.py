"""LlamaIndex's messages as turnmill's, and back. Pure, but for images that are in files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ContentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from pydantic import BaseModel

from turnmill.contract.authors import FEEDBACK
from turnmill.contract.context import JsonMessage

__all__ = ["from_chat", "to_chat"]

_ROLES: Mapping[str, str] = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
_URLS = ("http://", "https://", "file:", "data:image/")
_CALL_ID = "tool_call_id"
_CALLS = "tool_calls"


def to_chat(message: ChatMessage) -> JsonMessage:
    """The message in chat's shape.

    Left out: thinking, cache points, all other fields of ``additional_kwargs``. Audio, video,
    documents and citations become a line of text.
    """
    role = _ROLES.get(message.role.value, message.role.value)
    parts = [part for block in message.blocks for part in _parts(block)]
    found: JsonMessage = {"role": role, "content": _content(parts)}
    call_id = message.additional_kwargs.get(_CALL_ID)
    if role == "tool" and call_id:
        found[_CALL_ID] = call_id
    elif role == "tool":
        found |= {"role": "user", "name": FEEDBACK}  # of a tool, but of no call
    elif role == "assistant":
        found["content"] = "".join(part.get("text", "") for part in parts)
        if calls := _calls(message):
            found |= {"content": found["content"] or None, _CALLS: calls}
    return found


def _content(parts: list[JsonMessage]) -> str | list[JsonMessage]:
    is_text = len(parts) == 1 and parts[0]["type"] == "text"
    return (parts[0]["text"] if is_text else parts) if parts else ""


def _parts(block: ContentBlock) -> list[JsonMessage]:
    match block:
        case TextBlock():
            return [{"type": "text", "text": block.text}]
        case ImageBlock():
            return [_image(block)]
        case ThinkingBlock() | ToolCallBlock():
            return []
        case _ if block.block_type == "cache":
            return []
        case _:
            return [{"type": "text", "text": f"[{block.block_type}, not kept]"}]


def _image(block: ImageBlock) -> JsonMessage:
    url = str(block.url) if block.url else block.inline_url()
    if not url.startswith(_URLS):
        return {"type": "text", "text": "[image, not kept]"}
    image = {"url": url, "detail": block.detail} if block.detail else {"url": url}
    return {"type": "image_url", "image_url": image}


def _calls(message: ChatMessage) -> list[JsonMessage]:
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not blocks:
        return [_plain(call) for call in message.additional_kwargs.get(_CALLS) or ()]
    return [
        {
            "id": block.tool_call_id or block.tool_name,
            "type": "function",
            "function": {"name": block.tool_name, "arguments": _json(block.tool_kwargs)},
        }
        for block in blocks
    ]


def _plain(call: Any) -> JsonMessage:
    """A call as an OpenAI client gave it."""
    found = call.model_dump(exclude_none=True) if isinstance(call, BaseModel) else call
    function = {name: found["function"][name] for name in ("name", "arguments")}
    return {"id": found["id"], "type": "function", "function": function}


def _json(arguments: dict[str, Any] | str) -> str:
    is_text = isinstance(arguments, str)
    return str(arguments) if is_text else json.dumps(arguments, ensure_ascii=False)


def from_chat(message: JsonMessage, *, is_front: bool) -> ChatMessage:
    """The chat message made anew; system messages are the user's where others stand before them."""
    role, content = message["role"], message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks: list[ContentBlock] = [_block(part) for part in parts if part.get("text") != ""]
    blocks += _call_blocks(message.get(_CALLS) or ())
    more = {_CALL_ID: message[_CALL_ID]} if _CALL_ID in message else {}
    if role in ("system", "developer") and not is_front:
        role = "user"
    return ChatMessage(role=MessageRole(role), blocks=blocks, additional_kwargs=more)


def _block(part: JsonMessage) -> ContentBlock:
    if part["type"] != "image_url":
        return TextBlock(text=str(part.get("text") or ""))
    image = part["image_url"]
    return ImageBlock(url=image["url"], detail=image.get("detail"))


def _call_blocks(calls: Iterable[JsonMessage]) -> list[ToolCallBlock]:
    return [
        ToolCallBlock(
            tool_call_id=call["id"],
            tool_name=call["function"]["name"],
            tool_kwargs=_arguments(call["function"]["arguments"]),
        )
        for call in calls
    ]


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        found = json.loads(text)
    except ValueError:  # shortened
        return text
    return found if isinstance(found, dict) else text
