"""Whose words a message holds: not all that has the role of a user is the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnmill.contract.marks import is_record

__all__ = ["FEEDBACK", "MEMORIES", "author", "is_memories", "own_words", "text_in"]

FEEDBACK: Final = "feedback"
"""The name of a user message that a program wrote, as to say what is wrong with an answer."""

MEMORIES: Final = "memories"
"""The name of a user message that brings memories: it is never a memory or part of a summary."""


def author(message: Mapping[str, Any]) -> str:
    """The message's role; ``tool`` for what a program, or a context of ours, says as a user."""
    role = str(message.get("role") or "")
    if role != "user":
        return role
    return "tool" if message.get("name") == FEEDBACK or is_record(_opening(message)) else role


def is_memories(message: Mapping[str, Any]) -> bool:
    """Whether a message brings memories into a context; a tool may have that name, too."""
    return message.get("name") == MEMORIES and message.get("role") == "user"


def own_words(message: Mapping[str, Any]) -> str:
    """What a user says in a message; ``""`` for everybody else's."""
    return "" if author(message) != "user" or is_memories(message) else text_in(message)


def text_in(message: Mapping[str, Any]) -> str:
    """The text of a message, or of its parts."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(
            part["text"]
            for part in content
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""


def _opening(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = next((text for text in texts if isinstance(text, str)), "")
    return content if isinstance(content, str) else ""
