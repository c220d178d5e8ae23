"""Whose words a message holds: not all that has the role of a user is the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnmill.contract.marks import is_record

__all__ = ["FEEDBACK", "author"]

FEEDBACK: Final = "feedback"
"""The name of a user message that a program wrote, as to say what is wrong with an answer."""


def author(message: Mapping[str, Any]) -> str:
    """The message's role; ``tool`` for what a program, or a context of ours, says as a user."""
    role = str(message.get("role") or "")
    if role != "user":
        return role
    return "tool" if message.get("name") == FEEDBACK or is_record(_opening(message)) else role


def _opening(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = next((text for text in texts if isinstance(text, str)), "")
    return content if isinstance(content, str) else ""
