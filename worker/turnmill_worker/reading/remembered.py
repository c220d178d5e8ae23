"""What of a message is remembered, and who said it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from turnmill.contract.marks import author, is_memories, text_in
from turnmill.contract.render import RECALLED
from turnmill_worker.reading.voices import RESULT

__all__ = ["remembered"]

_MAX_CALL: Final = 200
_SPEAKERS: Final = ("user", "assistant")
_ROLES: Final = (*_SPEAKERS, RESULT, "system", "developer", "function")


def remembered(
    message: dict[str, Any], calls: dict[str, str], most: int | None = None
) -> Iterator[tuple[str, str]]:
    """Who says what in a message, if anything, in at most so many characters.

    Notes in ``calls`` the calls that results are known by; nobody but tools is called ``RESULT``.
    """
    role, name = author(message), message.get("name")
    calls.update(_calls(message))
    if is_memories(message) or role not in {*_SPEAKERS, RESULT}:
        return
    text = text_in(message).strip()[:most]
    if not text:
        return
    if role != RESULT:
        # A name that poses as a role would say that somebody else spoke.
        own = name if isinstance(name, str) and name.strip().lower() not in _ROLES else ""
        yield own or role, text
    elif message.get("role") == RESULT and not text.startswith(RECALLED):
        call = calls.pop(str(message.get("tool_call_id")), name)
        yield RESULT, f"{call}: {text}"[:most] if isinstance(call, str) and call else text


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The calls of a message, by their ids, as what they returned is told of them."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(call_id), "function": {"name": str(name), **function}}:
                yield call_id, f"{name}({function.get('arguments') or ''})"[:_MAX_CALL]
