"""What stands in the place of an erased turn; pure.

It has the shape the turn had - as many messages, of the same roles, with the same calls and results
- and none of its words, nor blocks of a provider: so whatever was legal before is legal still, and
every turn keeps its seq and its chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.formats import FIRST, stamp
from turnmill.contract.turns import ROLES
from turnmill_worker.ports.records import ERASED_AT, ArchivedTurn

__all__ = ["FUNCTION", "tombstone"]

FUNCTION: Final = "erased"
"""What an erased call is of."""


def tombstone(turn: ArchivedTurn, *, at_ms: int, renamed: Callable[[str], str]) -> ArchivedTurn:
    """The turn without its words; its ids are ``renamed``, each to the same wherever it stands."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = f"[erased {at:%Y-%m-%d}]"
    messages = [_emptied(message, text, renamed) for message in _messages(turn.messages)]
    known = _fields(turn.fields)
    fields = {ERASED_AT: at_ms, **stamp(known.get("format", FIRST))}
    iteration = known.get("iteration")
    if isinstance(iteration, int):
        fields["iteration"] = iteration
    return replace(
        turn,
        messages=encode_json(messages or [{"role": "user", "content": text}]),
        fields=encode_json(fields),
        turn_id=renamed(turn.turn_id),
        tokens=None,
        blobs=(),
    )


def _emptied(message: Mapping[str, Any], text: str, renamed: Callable[[str], str]) -> JsonMessage:
    role = message.get("role")
    empty: JsonMessage = {"role": role if role in ROLES else "user", "content": text}
    if role == "tool":
        empty["tool_call_id"] = renamed(str(message.get("tool_call_id")))
    calls = message.get("tool_calls")
    if calls:
        function = {"name": FUNCTION, "arguments": "{}"}
        empty["tool_calls"] = [
            {"id": renamed(str(call.get("id"))), "type": "function", "function": function}
            for call in calls
        ]
    return empty


def _messages(body: bytes) -> list[Mapping[str, Any]]:
    found = _decoded(body)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _fields(body: bytes) -> Mapping[str, Any]:
    found = _decoded(body)
    return found if isinstance(found, dict) else {}


def _decoded(body: bytes) -> Any:
    try:
        return decode_json(body) if body else None
    except (RecursionError, ValueError):
        return None  # a damaged turn is erased like any other
