"""A turn as an agent has it at hand, in chat's shape: models' answers and messages of all dialects.

Answers of the ``openai`` and ``anthropic`` packages are objects; they are told by their fields, so
that neither package is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from turnmill.contract.turns import Message, Turn, TurnLike
from turnmill.dialects.convert import in_chat
from turnmill.dialects.native import Dialect

__all__ = ["turn_in_chat"]


def turn_in_chat(value: Any) -> tuple[Dialect | None, TurnLike]:
    """The turn in chat's shape, and the dialect it was in; None where nothing tells.

    Raises:
        InvalidTurn: a part is of no known type; names it.
    """
    value = _plain(value)
    messages, dialect = _messages(value)
    if messages is None:
        return None, value
    seen, found = in_chat(list(map(_plain, messages)))
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


def _plain(value: Any) -> Any:
    """A mapping in place of an object of a provider's package; all else as it is."""
    if isinstance(value, Turn | Message | Mapping | Sequence):
        return value if not isinstance(value, Mapping) or type(value) is dict else dict(value)
    to_dict = getattr(value, "to_dict", None) or getattr(value, "model_dump", None)
    if not callable(to_dict):
        return value
    found = to_dict(mode="json")
    return found if isinstance(found, dict) else value
