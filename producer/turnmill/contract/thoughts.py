"""Thinking of Anthropic's models: bound to all that stood before it when it was thought.

Behind anything else their API refuses it, so there it is left out, whole: text and calls need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnmill.contract.context import JsonMessage

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks."""

PROJECTED: Final = "projected"
"""What an answer to a projected context was written under: no other context begins like it."""


def without_thoughts(messages: Sequence[JsonMessage]) -> Sequence[JsonMessage]:
    """The messages without their thoughts; the same object if they have none."""
    found = [_plain(message) for message in messages]
    return messages if all(a is b for a, b in zip(found, messages, strict=True)) else found


def _plain(message: JsonMessage) -> JsonMessage:
    native = message.get("native") or {}
    blocks = native.get("blocks") or ()
    left = [block for block in blocks if not _is_thought(block)]
    if len(left) == len(blocks):
        return message
    plain = {name: value for name, value in message.items() if name != "native"}
    return {**plain, "native": {**native, "blocks": left}} if left else plain


def _is_thought(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in THOUGHTS
