"""agent-framework's messages as chat messages, and back. Pure.

What a chat message has no field for (reasoning, approvals, ids, annotations) is carried beside it,
and stands in the message again as long as the context shows it word for word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from agent_framework import Content, Message

from turnmill.contract.context import JsonMessage
from turnmill.integrations.originals import key

__all__ = ["from_chat", "to_chat"]

_BESIDE: Final = "native"
"""The field for what other formats say beside; whatever shortens a message takes it off."""

_DIALECT: Final = "agent-framework"


def to_chat(message: Message) -> list[JsonMessage]:
    """The message as messages of the chat API: each result of a tool in one of its own.

    Files that are no images become a line of text.
    """
    plain = _plain(message)
    beside = _difference(_json(_without_files(message)), _base(plain))
    if not beside:
        return plain
    kept = {"dialect": _DIALECT, "of": _words(plain), "beside": beside}
    return [{**plain[0], _BESIDE: kept}, *plain[1:]]


def _without_files(message: Message) -> Message:
    contents = [
        Content.from_text(str((_part(each) or {})["text"])) if _is_file(each) else each
        for each in message.contents
    ]
    return Message(
        message.role,
        contents,
        author_name=message.author_name,
        message_id=message.message_id,
        additional_properties=message.additional_properties,
    )


def _is_file(content: Content) -> bool:
    return content.type in {"data", "uri"} and (_part(content) or {}).get("type") == "text"


def _words(plain: Sequence[JsonMessage]) -> list[str]:
    return [key(each)[:12] for each in plain]


def _plain(message: Message) -> list[JsonMessage]:
    results = [_result(content) for content in message.contents if _is_result(content)]
    parts = [part for content in message.contents if (part := _part(content))]
    calls = [_call(content) for content in message.contents if _is_call(content)]
    if results and not parts and not calls:
        return results
    role = message.role if message.role in {"system", "developer", "user"} else "assistant"
    named = {"name": message.author_name} if message.author_name else {}
    said: JsonMessage = {"role": role, **named, "content": _joined(parts)}
    if calls:
        said |= {"content": _joined(parts) or None, "tool_calls": calls}
    elif not parts:
        # Nothing that can be said: an approval, reasoning alone. Its place must be kept.
        kinds = ", ".join(dict.fromkeys(content.type for content in message.contents))
        said["content"] = f"[{kinds or 'nothing'}]"
    return [said, *results]


def _joined(parts: list[JsonMessage]) -> str | list[JsonMessage]:
    is_text = [part["type"] for part in parts] in ([], ["text"])
    return "".join(part["text"] for part in parts) if is_text else parts


def _is_call(content: Content) -> bool:
    is_own = not content.informational_only and not content.hosted
    return content.type == "function_call" and bool(content.call_id) and is_own


def _is_result(content: Content) -> bool:
    return content.type == "function_result" and bool(content.call_id)


def _call(content: Content) -> JsonMessage:
    given = content.arguments
    arguments = given if isinstance(given, str) else json.dumps(given or {}, default=str)
    function = {"name": content.name or "unknown", "arguments": arguments}
    return {"id": content.call_id, "type": "function", "function": function}


def _result(content: Content) -> JsonMessage:
    parts = [part for item in content.items or () if (part := _part(item))]
    text = content.result if isinstance(content.result, str) else json.dumps(content.result)
    shown = _joined(parts) if parts else text or ""
    return {"role": "tool", "tool_call_id": content.call_id, "content": shown}


def _part(content: Content) -> JsonMessage | None:
    """What a model can read of it, or None."""
    if content.type == "text":
        return {"type": "text", "text": content.text}
    if content.type in {"data", "uri"}:
        is_image = (content.media_type or "").startswith("image/")
        if is_image and (content.uri or "").startswith(("data:", "http://", "https://")):
            return {"type": "image_url", "image_url": {"url": content.uri}}
        return {"type": "text", "text": f"[{content.media_type or content.type}, not kept]"}
    if content.type in {"hosted_file", "hosted_vector_store", "error"}:
        return {"type": "text", "text": f"[{content.type}, not kept]"}
    return None


def from_chat(messages: Sequence[JsonMessage]) -> list[Message]:
    """The chat messages as agent-framework's; adjacent results of tools are one message."""
    made: list[Message] = []
    at = 0
    while at < len(messages):
        found, size = _carried(messages, at)
        if found is None:
            # Up to the next that is carried; results are joined.
            end = next((i for i in range(at + 1, len(messages)) if _kept(messages[i])), None)
            made += _made(list(map(_bare, messages[at:end])))
            at = len(messages) if end is None else end
        else:
            made.append(found)
            at += size
    return made


def _kept(message: JsonMessage) -> dict[str, Any]:
    found = message.get(_BESIDE) or {}
    return found if found.get("dialect") == _DIALECT else {}


def _bare(message: JsonMessage) -> JsonMessage:
    return {name: value for name, value in message.items() if name != _BESIDE}


def _carried(messages: Sequence[JsonMessage], at: int) -> tuple[Message | None, int]:
    """The message that begins here, as it was, and how many chat messages it is made of."""
    kept = _kept(messages[at])
    size = len(kept.get("of", ()))
    plain = list(map(_bare, messages[at : at + size]))
    if not size or _words(plain) != kept["of"]:
        return None, 0
    return Message.from_dict(_overlaid(_base(plain), kept["beside"])), size


def _made(messages: Iterable[JsonMessage]) -> list[Message]:
    made: list[Message] = []
    for role, run in groupby(messages, key=lambda message: message["role"]):
        if role == "tool":
            made.append(Message("tool", [_told(message) for message in run]))
        else:
            made += [
                Message(role, _contents(message), author_name=message.get("name"))
                for message in run
            ]
    return made


def _told(message: JsonMessage) -> Content:
    items = _texts(message["content"])
    return Content.from_function_result(message["tool_call_id"], result=items)


def _contents(message: JsonMessage) -> list[Content]:
    calls = [
        Content.from_function_call(
            call["id"], call["function"]["name"], arguments=call["function"]["arguments"]
        )
        for call in message.get("tool_calls") or ()
    ]
    return [*_texts(message.get("content") or []), *calls]


def _texts(content: str | Sequence[JsonMessage]) -> list[Content]:
    if isinstance(content, str):
        return [Content.from_text(content)]
    return [
        Content.from_uri(part["image_url"]["url"], media_type=_media(part["image_url"]["url"]))
        if part["type"] == "image_url"
        else Content.from_text(str(part.get("text") or f"[{part['type']}, not kept]"))
        for part in content
    ]


def _media(url: str) -> str:
    return url[5 : url.index(";")] if url.startswith("data:") else "image/*"


def _json(message: Message) -> dict[str, Any]:
    """The message as JSON, which is what it is once it was stored."""
    found: dict[str, Any] = json.loads(json.dumps(message.to_dict(), default=str))
    return found


def _base(plain: Sequence[JsonMessage]) -> dict[str, Any]:
    """What the chat messages alone say, as one message in JSON."""
    made = list(map(_json, _made(plain)))
    return {**made[0], "contents": [content for each in made for content in each["contents"]]}


def _difference(full: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What is to be laid over ``base`` to have ``full``."""
    steps: list[Any] = []
    at = 0
    for content in full["contents"]:
        said = base["contents"][at] if at < len(base["contents"]) else {}
        if said.get("type") == content["type"]:
            steps.append([at, _changed(content, said)])
            at += 1
        else:
            steps.append(content)
    beside = _changed({**full, "contents": 0}, {**base, "contents": 0})
    is_all = steps == [[step, {}] for step in range(len(base["contents"]))]
    return beside if is_all else {**beside, "contents": steps}


def _changed(full: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    names = sorted(full.keys() | base.keys())
    return {name: full.get(name) for name in names if full.get(name) != base.get(name)}


def _overlaid(base: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    contents = [
        _laid(base["contents"][step[0]], step[1]) if isinstance(step, list) else step
        for step in beside.get("contents", ())
    ]
    full = _laid(base, beside)
    return {**full, "contents": contents} if "contents" in beside else full


def _laid(base: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**base, **changed}.items() if value is not None}
