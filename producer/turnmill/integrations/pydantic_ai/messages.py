"""pydantic-ai's messages as turnmill's, and back. Pure.

A chat message has no field for thinking, native tools or timestamps, so they are left out;
``restoring`` says how a history keeps them all the same.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from turnmill.contract.authors import FEEDBACK
from turnmill.contract.context import JsonMessage
from turnmill.integrations.originals import key

__all__ = ["Chat", "from_chat", "to_chat"]

_URLS = ("http://", "https://", "file:", "data:")


@dataclass(frozen=True, slots=True)
class Chat:
    """A history in the shape of the OpenAI chat API.

    Attributes:
        messages: in order; the system prompt is not among them.
        owners: for each, the position of the pydantic-ai message it was made from.
        prompts: the system prompt: the system parts of the first message.
        names: names of the called tools, by call id.
        keys: the ``key`` of each message.
    """

    messages: list[JsonMessage]
    owners: list[int]
    prompts: tuple[SystemPromptPart, ...]
    names: Mapping[str, str]
    keys: list[str]


def to_chat(history: Sequence[ModelMessage]) -> Chat:
    """The history as chat messages, each call before its result.

    Left out, and kept only as long as the original is shown: thinking, native tools, generated
    files, request-scoped system prompts. Audio, video and documents become a line of text.
    """
    messages: list[JsonMessage] = []
    owners: list[int] = []
    for at, message in enumerate(history):
        made = _response(message) if isinstance(message, ModelResponse) else _request(message, at)
        messages += made
        owners += [at] * len(made)
    first = history[0].parts if history else ()
    prompts = tuple(part for part in first if isinstance(part, SystemPromptPart))
    keys = [key(message) for message in messages]
    return Chat(messages, owners, prompts, _names(messages), keys)


def _names(messages: Iterable[JsonMessage]) -> dict[str, str]:
    return {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }


def _request(request: ModelRequest, at: int) -> list[JsonMessage]:
    results: list[JsonMessage] = []
    rest: list[JsonMessage] = []
    for part in request.parts:
        match part:
            case ToolReturnPart():
                results.append(_result(part.tool_call_id, part.model_response_str()))
                rest += [_fed_back(_content(part.files))] if part.files else []
            case RetryPromptPart() if part.tool_name is not None:
                results.append(_result(part.tool_call_id, part.model_response()))
            case RetryPromptPart() | RetryFeedbackPart():
                rest.append(_fed_back(part.model_response()))
            case UserPromptPart():
                text = part.content
                whole = text if isinstance(text, str) else _content(text)
                rest.append({"role": "user", "content": whole})
            case SystemPromptPart() if at and part.scope == "conversation":
                rest.append({"role": "system", "content": part.content})
            case _:
                pass  # the system prompt, or what pydantic-ai notes for itself
    return results + rest  # results right behind their calls, whatever order the request has


def _fed_back(content: str | list[JsonMessage]) -> JsonMessage:
    """What a provider takes as a user's only, and what a tool or a check returned."""
    return {"role": "user", "name": FEEDBACK, "content": content}


def _result(call_id: str, content: str) -> JsonMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _response(response: ModelResponse) -> list[JsonMessage]:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": _arguments(part)},
        }
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    if not text and not calls:
        return []
    message: JsonMessage = {"role": "assistant", "content": text or None}
    return [{**message, "tool_calls": calls} if calls else message]


def _arguments(call: ToolCallPart) -> str:
    # As the model wrote them: pydantic-ai's own rendering changes the spaces.
    return call.args if isinstance(call.args, str) and call.args else call.args_as_json_str()


def _content(items: Iterable[UserContent]) -> list[JsonMessage]:
    return [_part(item) for item in items if not isinstance(item, CachePoint)]


def _part(item: UserContent) -> JsonMessage:
    url, text = "", ""
    match item:
        case str():
            text = item
        case TextContent():
            text = item.content
        case BinaryContent() if item.is_image:
            # Canonical base64 without line breaks: what turnmill keeps once per content.
            data = base64.b64encode(item.data).decode()
            url = f"data:{item.media_type};base64,{data}"
        case ImageUrl() if item.url.startswith(_URLS):
            url = item.url
        case _:
            text = f"[{item.kind}, not kept]"
    if not url:
        return {"type": "text", "text": text}
    detail = (getattr(item, "vendor_metadata", None) or {}).get("detail")
    image = {"url": url, "detail": detail} if isinstance(detail, str) else {"url": url}
    return {"type": "image_url", "image_url": image}


def from_chat(
    messages: Sequence[JsonMessage], names: Mapping[str, str] | None = None
) -> list[ModelMessage]:
    """The chat messages as pydantic-ai messages; adjacent requests become one.

    ``names`` has the tools that earlier messages called.
    """
    made: list[ModelMessage] = []
    known = {**(names or {}), **_names(messages)}
    for message in messages:
        if message["role"] == "assistant":
            made.append(ModelResponse(parts=list(_said(message))))
        elif made and isinstance(made[-1], ModelRequest):
            made[-1] = replace(made[-1], parts=[*made[-1].parts, _asked(message, known)])
        else:
            made.append(ModelRequest(parts=[_asked(message, known)]))
    return made


def _said(message: JsonMessage) -> Iterator[ModelResponsePart]:
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [p.get("text") for p in content or ()]
    yield from (TextPart(text) for text in texts if text)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield ToolCallPart(function["name"], function["arguments"], call["id"])


def _asked(message: JsonMessage, names: Mapping[str, str]) -> ModelRequestPart:
    content = message["content"]
    match message["role"]:
        case "system" | "developer":
            return SystemPromptPart(content)
        case "tool":
            call_id = message["tool_call_id"]
            return ToolReturnPart(names.get(call_id, "unknown"), content, call_id)
        case _:
            text = content if isinstance(content, str) else [_item(part) for part in content]
            return UserPromptPart(text)


def _item(part: JsonMessage) -> UserContent:
    if part["type"] != "image_url":
        return str(part.get("text") or "")
    image = part["image_url"]
    vendor = {"detail": image["detail"]} if "detail" in image else None
    if image["url"].startswith("data:"):
        return replace(BinaryContent.from_data_uri(image["url"]), vendor_metadata=vendor)
    return ImageUrl(image["url"], vendor_metadata=vendor)
