"""Ids of calls: told apart where an agent uses one again, and as each provider takes them.

What is stored stays as it was sent. What is shown follows from the messages before it alone, so it
is the same in every read; and a result with an id that was shown is paired with the call it was
shown for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import Any, Final

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage

CALL: Final = "call:"
"""In an order of blocks, before its id: a call of the message."""

MOST_CHARS: Final = 64
"""Of an id, for Anthropic and in Responses."""

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_AGAIN = re.compile(r"(.+)__[0-9]+", re.DOTALL)
_KEPT_CHARS: Final = 40
_DIGEST_CHARS: Final = 12
_NUMBER_CHARS: Final = 8


def is_valid(call_id: str, dialect: str) -> bool:
    """Whether the dialect's provider takes such an id."""
    if dialect == "chat":
        return True  # some providers' ids are long, and mean something to them
    is_plain = dialect != "anthropic" or _PLAIN.fullmatch(call_id) is not None
    return is_plain and len(call_id) <= MOST_CHARS


def told_apart(message: JsonMessage) -> JsonMessage:
    """An assistant message whose calls have an id each; the same if they have."""
    ids = _ids(message)
    return message if len(set(ids)) == len(ids) else _with_ids(message, _names(ids, "chat", set()))


def with_own_ids(messages: Sequence[JsonMessage], dialect: str) -> list[JsonMessage]:
    """The messages with ids that the dialect takes, no two calls with one.

    Chat's providers take an id again in a later message; the others do not.
    """
    taken: set[str] = set()
    waiting: dict[str, list[str]] = {}
    found: list[JsonMessage] = []
    for message in messages:
        shown = message
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            names = waiting.get(call_id) or _names([call_id], dialect, set())
            name = names.pop(0)
            shown = message if name == call_id else {**message, "tool_call_id": name}
        elif ids := _ids(message):
            names = _names(ids, dialect, set() if dialect == "chat" else taken)
            shown = message if names == ids else _with_ids(message, names)
            waiting = {}
            for call_id, name in zip(ids, names, strict=True):
                waiting.setdefault(call_id, []).append(name)
        found.append(shown)
    return found


def answered(call_id: str, waiting: Sequence[str]) -> int | None:
    """Which of the calls that wait a result with this id answers: the first of that name."""
    if call_id in waiting:
        return waiting.index(call_id)
    named = {call_id, _first(call_id)}
    for at, own in enumerate(waiting):
        if named & {own, _first(own), _short(own)}:
            return at
    return None


def called(call: Mapping[str, Any]) -> tuple[str, str]:
    """The name of what is called and its arguments; a custom tool's input is one of these."""
    if isinstance(custom := call.get("custom"), Mapping):
        return str(custom.get("name", "")), encode_json({"input": custom.get("input")}).decode()
    function = call.get("function") or {}
    return function.get("name") or "", function.get("arguments") or ""


def _ids(message: JsonMessage) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or ()]


def _names(ids: Iterable[str], dialect: str, taken: set[str]) -> list[str]:
    """A name for each, of those that are not ``taken``; they are now."""
    names = []
    for call_id in ids:
        names.append(_free(call_id, dialect, taken))
        taken.add(names[-1])
    return names


def _free(call_id: str, dialect: str, taken: AbstractSet[str]) -> str:
    name = call_id if is_valid(call_id, dialect) else _short(call_id)
    if name not in taken:
        return name
    has_room = dialect == "chat" or len(name) <= MOST_CHARS - _NUMBER_CHARS
    stem = name if has_room else _short(call_id)
    return next(each for n in count(2) if (each := f"{stem}__{n}") not in taken)


def _first(name: str) -> str:
    """The id that this one was made of for a further call, or the same."""
    found = _AGAIN.fullmatch(name)
    return found[1] if found else name


def _short(call_id: str) -> str:
    """The id in letters that every provider takes, and few of them."""
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_NOT_PLAIN.sub('_', call_id)[:_KEPT_CHARS]}_{digest[:_DIGEST_CHARS]}"


def _with_ids(message: JsonMessage, names: Sequence[str]) -> JsonMessage:
    """The message with these ids for its calls, where it states their order too."""
    named: dict[str, list[str]] = {}
    calls = []
    for call, name in zip(message["tool_calls"], names, strict=True):
        named.setdefault(f"{CALL}{call['id']}", []).append(f"{CALL}{name}")
        calls.append({**call, "id": name})
    changed = {**message, "tool_calls": calls}
    if blocks := (message.get("native") or {}).get("blocks"):
        order = [
            named[one].pop(0) if isinstance(one, str) and named.get(one) else one for one in blocks
        ]
        changed["native"] = {**message["native"], "blocks": order}
    return changed
