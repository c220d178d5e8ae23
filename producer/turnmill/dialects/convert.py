"""From what an agent pushes to chat messages, and from chat messages to a dialect. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidInput
from turnmill.dialects.native import Converted, Dialect, without_native
from turnmill.dialects.types import (
    ANTHROPIC_BLOCKS,
    ANTHROPIC_SHOWN,
    RESPONSES_ITEMS,
    RESPONSES_PARTS,
)

__all__ = ["DIALECTS", "from_chat", "in_chat"]

DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)


def in_chat(messages: Sequence[Any]) -> tuple[Dialect | None, Sequence[Any]]:
    """The messages of a turn in chat's shape, and the dialect they were in.

    None where nothing tells: the three share what only says text.

    Raises:
        InvalidTurn: a part is of no known type; names it.
    """
    dialect = _seen(messages)
    if dialect == "anthropic":
        from turnmill.dialects import anthropic_in  # noqa: PLC0415 - few sessions need it

        found: list[JsonMessage] = []
        for at, message in enumerate(messages):
            found += anthropic_in.to_chat(message, f"messages[{at}]")
        return dialect, found
    if dialect == "responses":
        from turnmill.dialects import responses_in  # noqa: PLC0415 - few sessions need it

        return dialect, responses_in.to_chat(messages)
    return None, messages


def _seen(messages: Sequence[Any]) -> Dialect | None:
    if not all(isinstance(message, Mapping) for message in messages):
        return None  # to be refused, or models of chat messages: nothing of it is left out
    for message in messages:
        kind, content = message.get("type"), message.get("content")
        if kind in RESPONSES_ITEMS or (kind == "message" and "role" in message):
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
    if dialect == "anthropic":
        from turnmill.dialects import anthropic_out  # noqa: PLC0415 - few sessions need it

        return anthropic_out.from_chat(messages, head)
    if dialect == "responses":
        from turnmill.dialects import responses_out  # noqa: PLC0415 - few sessions need it

        return responses_out.from_chat(messages)
    if dialect != "chat":
        raise InvalidInput(f"dialect: got {dialect!r}; allowed are {', '.join(DIALECTS)}")
    left_out = {
        f"parts of type {part['type']}": None
        for message in messages
        for part in _parts(message)
        if part.get("type") in ANTHROPIC_SHOWN
    }
    return Converted([_chat(m) for m in without_native(messages)], "", tuple(left_out))


def _parts(message: JsonMessage) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _chat(message: JsonMessage) -> JsonMessage:
    if not any(part.get("type") in ANTHROPIC_SHOWN for part in _parts(message)):
        return message
    parts = [
        {"type": "text", "text": f"[{part['type']}, which cannot be shown here]"}
        if part.get("type") in ANTHROPIC_SHOWN
        else part
        for part in _parts(message)
    ]
    return {**message, "content": parts}
