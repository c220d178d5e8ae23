"""From what an agent pushes to chat messages, and from chat messages to a dialect. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from turnmill.contract.call_ids import with_own_ids
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidInput, InvalidTurn
from turnmill.contract.fields import OWN, PARSED
from turnmill.contract.turns import Message, Turn, TurnLike, with_content
from turnmill.dialects.native import (
    ANTHROPIC_BLOCKS,
    NATIVE,
    RESPONSES_ITEMS,
    RESPONSES_PARTS,
    SPOKEN,
    Converted,
    Dialect,
    sendable_name,
    unshown,
    without_native,
)

DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)

_OF_RESPONSES: Final = frozenset({"status", "phase"})
"""Fields of a message that no other dialect has."""


def in_chat(messages: Sequence[Any]) -> tuple[Dialect | None, Sequence[Any]]:
    """The messages of a turn in chat's shape, and the dialect they were in.

    None where nothing tells: the three share what only says text.

    Raises:
        InvalidTurn: a part is of no known type; names it.
    """
    dialect = _seen(messages)
    if dialect == "anthropic":
        from turnmill.dialects import anthropic  # noqa: PLC0415 - few sessions need it

        found: list[JsonMessage] = []
        for at, message in enumerate(messages):
            found += anthropic.to_chat(message, f"messages[{at}]")
        return dialect, found
    if dialect == "responses":
        from turnmill.dialects import responses  # noqa: PLC0415 - few sessions need it

        return dialect, responses.to_chat(messages)
    return None, messages


def _seen(messages: Sequence[Any]) -> Dialect | None:
    if not all(isinstance(message, Mapping) for message in messages):
        return None  # to be refused, or models of chat messages: nothing of it is left out
    for message in messages:
        kind, content = message.get("type"), message.get("content")
        is_item = kind == "message" or not _OF_RESPONSES.isdisjoint(message)
        if kind in RESPONSES_ITEMS or (is_item and message.get("role", "tool") != "tool"):
            return "responses"
        for part in content if isinstance(content, list | tuple) else ():
            name = part.get("type") if isinstance(part, Mapping) else None
            if name in ANTHROPIC_BLOCKS:
                return "anthropic"
            if name in RESPONSES_PARTS:
                return "responses"
    return None


def from_chat(messages: Sequence[JsonMessage], dialect: str, head: int | None = None) -> Converted:
    """The conversation as a provider takes it, and what could not be said.

    Where the provider takes cache marks, one stands behind the first ``head`` messages.

    Raises:
        InvalidInput: there is no such dialect.
    """
    if dialect not in DIALECTS:
        raise InvalidInput(f"dialect: got {dialect!r}; allowed are {', '.join(DIALECTS)}")
    messages = with_own_ids(messages, dialect)
    if dialect == "anthropic":
        from turnmill.dialects import anthropic  # noqa: PLC0415 - few sessions need it

        return anthropic.from_chat(messages, head)
    if dialect == "responses":
        from turnmill.dialects import responses  # noqa: PLC0415 - few sessions need it

        found = responses.from_chat(messages)
        return found._replace(messages=list(responses.told_once(found.messages)))
    left_out = {
        f"parts of type {part['type']}": None
        for message in messages
        for part in _parts(message)
        if not _is_taken(part, message)
    }
    shown = [dict(with_content(_chat(m))) for m in without_native(messages)]
    return Converted(shown, "", tuple(left_out))


def _parts(message: JsonMessage) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


_TEXT_ONLY: Final = frozenset({"text"})
_TAKEN: Final = {
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    # Images: not OpenAI, but most compatible servers.
    "assistant": SPOKEN | {"image_url"},
    "tool": frozenset({"text", "image_url"}),
}
"""Types of parts by the role of their message, in chat."""

_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]")


def _is_taken(part: JsonMessage, message: JsonMessage) -> bool:
    return part["type"] in _TAKEN.get(message["role"], _TEXT_ONLY)


def _has_name(message: JsonMessage) -> bool:
    """Whether the message has a name that is taken, or none."""
    name = message.get("name")
    return name is None or (name != "" and not _NOT_IN_NAMES.search(name))


def _chat(message: JsonMessage) -> JsonMessage:
    if isinstance(audio := message.get("audio"), dict) and "id" in audio:
        message = {**message, "audio": {"id": audio["id"]}}
    if calls := message.get("tool_calls"):
        message = {**message, "tool_calls": list(map(_call, calls))}
    if not _has_name(message):
        message = {**message, "name": _NOT_IN_NAMES.sub("_", message["name"]) or None}
    if all(_is_taken(part, message) for part in _parts(message)):
        return message
    parts = [
        part if _is_taken(part, message) else unshown(part["type"]) for part in _parts(message)
    ]
    return {**message, "content": parts}


def in_own_words(message: JsonMessage) -> bool:
    """Whether a chat message says nothing that ``from_chat`` would change for chat; cheap."""
    if NATIVE in message or "audio" in message or not _has_name(message):
        return False
    calls = message.get("tool_calls") or ()
    return all(NATIVE not in part and _is_taken(part, message) for part in _parts(message)) and (
        all(NATIVE not in call and _call(call) is call for call in calls)
    )


def _call(call: JsonMessage) -> JsonMessage:
    kind = "custom" if "custom" in call else "function"
    named = call.get(kind) or {}
    name = named.get("name")
    shown = name and sendable_name(name, "chat")
    if shown == name and "type" in call:
        return call
    return {"type": kind, **call, kind: {**named, "name": shown}}


def turn_in_chat(value: Any) -> tuple[Dialect | None, TurnLike]:
    """The turn in chat's shape, and the dialect it was in; None where nothing tells.

    Raises:
        InvalidTurn: a part is of no known type (names it), a type is no text, or it is too deep.
    """
    value = _plain(value)
    messages, dialect = _messages(value)
    if messages is None:
        return None, value
    try:
        seen, found = in_chat([_as_sent(_plain(message)) for message in messages])
    except RecursionError:
        raise InvalidTurn("turn: nested deeper than any reader follows") from None
    dialect = seen or dialect
    if isinstance(value, dict) and "messages" in value:
        return dialect, {**value, "messages": found}
    # One alone stays a message: then errors say where in a turn it is.
    alone = found[0] if len(found) == 1 and isinstance(found[0], dict) else found
    return dialect, cast("TurnLike", alone)  # to_turn checks what they are


def _messages(value: Any) -> tuple[Sequence[Any] | None, Dialect | None]:
    """The messages or items in what was pushed, and the dialect if it is a model's answer."""
    found: tuple[Sequence[Any] | None, Dialect | None] = None, None
    match value:
        case {"messages": [*messages]}:
            found = messages, None
        case {"object": "response", "output": [*items]}:
            found = items, "responses"
        case {"object": "chat.completion", "choices": [{"message": dict(message)}, *_]}:
            found = [message], None
        case {"type": "message", "role": str(role), "content": [*blocks], "stop_reason": _}:
            found = [{"role": role, "content": blocks}], "anthropic"
        case dict() if "messages" not in value:
            found = [value], None
        case [_, *_]:
            found = value, None
    return found


def _as_sent(value: Any) -> Any:
    """Without what a dumped answer has and no provider takes: nulls, parsed texts, sound.

    Raises:
        InvalidTurn: a type is none.
    """
    if isinstance(value, list):
        return list(map(_as_sent, value))
    if not isinstance(value, dict):
        return value
    if not isinstance(kind := value.get("type"), str | None):
        raise InvalidTurn(f"type: must be text, got {type(kind).__name__}")
    found = {
        name: _as_sent(item) if name in _HOLDERS else item
        for name, item in value.items()
        if name not in PARSED
        and (item is not None or name.startswith(OWN) or (name in _SAID and "role" in value))
    }
    if isinstance(audio := found.get("audio"), dict) and "id" in audio:
        found["audio"] = {name: item for name, item in audio.items() if name != "data"}
    return found


_SAID: Final = frozenset({"role", "content"})
_HOLDERS: Final = frozenset({"content", "tool_calls", "function"})


def _plain(value: Any) -> Any:
    """A mapping in place of an object of a provider's package; all else as it is."""
    if isinstance(value, Turn | Message | Mapping | Sequence):
        return value if not isinstance(value, Mapping) or type(value) is dict else dict(value)
    to_dict = getattr(value, "to_dict", None) or getattr(value, "model_dump", None)
    if not callable(to_dict):
        return value
    found = to_dict(mode="json")
    return found if isinstance(found, dict) else value
