"""Messages as a page shows them: texts, images, calls and results, each recognizable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turnmill.contract.context import JsonMessage
from turnmill_cli.visualize.images import Image, PageImages
from turnmill_cli.visualize.visible_text import Text, as_json, pretty_json, short_label, text

__all__ = ["MessageFormatter", "MessagePart", "ShownMessage"]

_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_PREVIEW_OF_CALL = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """One part of a message.

    Attributes:
        kind: how it is laid out.
        label: what stands before it, such as a function's name.
    """

    kind: Literal["text", "code", "call", "image"]
    label: str = ""
    text: Text | None = None
    image: Image | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message.

    Attributes:
        role: as pushed; ``style`` is one the page has a colour for.
        note: beside the role: its name, or the call it answers.
    """

    role: str
    style: str
    note: str
    parts: tuple[MessagePart, ...]


class MessageFormatter:
    """Shows the messages of one conversation, in order; knows which call a result answers."""

    def __init__(self, images: PageImages) -> None:
        self._images = images
        self._calls: dict[str, str] = {}

    def shown(self, messages: Sequence[JsonMessage], where: str) -> tuple[ShownMessage, ...]:
        """The messages of one turn."""
        return tuple(self._message(message, where) for message in messages)

    def _message(self, message: Mapping[str, Any], where: str) -> ShownMessage:
        role = str(message.get("role", "unknown"))
        parts = [*self._content(message.get("content"), role, where)]
        calls = message.get("tool_calls")
        parts += [self._call(call) for call in calls] if isinstance(calls, list | tuple) else []
        others = {key: message[key] for key in message if key not in _KNOWN and message[key]}
        parts += [_other(key, value) for key, value in others.items()]
        return ShownMessage(
            role=short_label(role),
            style=role if role in ("system", "developer", "user", "assistant", "tool") else "tool",
            note=short_label(self._note(message, role)),
            parts=tuple(parts),
        )

    def _note(self, message: Mapping[str, Any], role: str) -> str:
        answered = message.get("tool_call_id")
        if role == "tool" and isinstance(answered, str):
            # An id may be used again for another call: the last one before counts.
            return f"result of {self._calls.get(answered, answered)}"
        name = message.get("name")
        return str(name) if name else ""

    def _content(self, content: Any, role: str, where: str) -> Iterator[MessagePart]:
        if content is None or content == "":
            return
        parts = content if isinstance(content, list | tuple) else [content]
        for part in parts:
            if isinstance(part, str):
                yield _text(part, role)
            elif not isinstance(part, Mapping):
                yield MessagePart(kind="code", text=text(as_json(part)))
            elif isinstance(part.get("text"), str):
                kind = str(part.get("type", "text"))
                yield _text(part["text"], role, "" if kind == "text" else kind)
            elif part.get("type") == "image_url":
                image = part.get("image_url")
                url = image.get("url") if isinstance(image, Mapping) else image
                yield MessagePart(kind="image", image=self._images.image(url, where))
            else:
                yield _other(str(part.get("type", "part")), dict(part))

    def _call(self, call: Any) -> MessagePart:
        if not isinstance(call, Mapping):
            return _other("call", call)
        function = call.get("function") or call.get("custom") or {}
        function = function if isinstance(function, Mapping) else {}
        name = str(function.get("name") or call.get("type") or "call")
        given = function.get("arguments", function.get("input", ""))
        if isinstance(call.get("id"), str):
            self._calls[call["id"]] = name
        told = given if isinstance(given, str) else as_json(given)
        spread = pretty_json(told) if len(told) > _PREVIEW_OF_CALL else told
        return MessagePart(kind="call", label=short_label(name), text=text(spread))


def _text(raw: str, role: str, label: str = "") -> MessagePart:
    spread = pretty_json(raw) if role == "tool" else raw
    is_code = role == "tool" or spread is not raw
    return MessagePart(
        kind="code" if is_code else "text", label=short_label(label), text=text(spread)
    )


def _other(label: str, value: Any) -> MessagePart:
    told = value if isinstance(value, str) else as_json(value)
    return MessagePart(kind="code", label=short_label(label), text=text(told))
