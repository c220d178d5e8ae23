"""Messages without some of their answered calls, as a provider still takes them."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import JsonMessage
from turnmill.contract.tail import TailTurn

__all__ = ["without_oldest_calls"]

_Placed = tuple[TailTurn, JsonMessage]
"""A message and the turn it belongs to."""


def without_oldest_calls(placed: Sequence[_Placed], calls: int) -> list[_Placed]:
    """The messages without the first ``calls`` that have a result; none when there are fewer."""
    results: set[int] = set()
    leaving: dict[int, list[str]] = {}
    caller = 0
    for at, (_, message) in enumerate(placed):
        if message.get("tool_calls"):
            caller = at
        elif message["role"] == "tool" and len(results) < calls:
            results.add(at)
            leaving.setdefault(caller, []).append(message["tool_call_id"])
    if len(results) < calls:
        return []
    return [
        (turn, left)
        for at, (turn, message) in enumerate(placed)
        if at not in results
        for left in _without_calls(message, leaving.get(at, ()))
    ]


def _without_calls(message: JsonMessage, ids: Sequence[str]) -> list[JsonMessage]:
    """The message without these of its calls; nothing where that leaves nothing of it."""
    if not ids:
        return [message]
    calls = list(message["tool_calls"])
    for call_id in ids:
        calls.remove(next(call for call in calls if call["id"] == call_id))
    return [{**message, "tool_calls": calls}] if calls else _said(message)


def _said(caller: JsonMessage) -> list[JsonMessage]:
    """What an assistant message says beside its calls, as a message of its own."""
    plain = {key: value for key, value in caller.items() if key != "tool_calls"}
    return [plain] if plain.get("content") else []
