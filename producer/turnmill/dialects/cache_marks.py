"""Where Anthropic's prompt cache shall end: behind what changes only with a compaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnmill.contract.context import JsonMessage

__all__ = ["marked", "marked_text", "unmarked"]

_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_UNMARKABLE: Final = frozenset({"thinking", "redacted_thinking"})


def marked_text(text: str) -> list[JsonMessage]:
    """A system prompt with a mark behind it."""
    return [{"type": "text", "text": text, **_MARK}]


def unmarked(message: JsonMessage) -> JsonMessage:
    """The message without marks: those of many turns together are more than Anthropic takes."""
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_has_mark, content)):
        return message
    return {**message, "content": [_unmarked(block) for block in content]}


def _has_mark(block: Mapping[str, Any]) -> bool:
    inner = block.get("content")
    return "cache_control" in block or (isinstance(inner, list) and any(map(_has_mark, inner)))


def _unmarked(block: JsonMessage) -> JsonMessage:
    found = {name: value for name, value in block.items() if name != "cache_control"}
    inner = found.get("content")
    if isinstance(inner, list):
        found["content"] = [_unmarked(each) for each in inner]
    return found


def marked(message: JsonMessage, blocks: int) -> JsonMessage:
    """The message with a mark behind its first ``blocks``; thinking cannot carry one."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": marked_text(content)}
    made = list(content)
    able = [at for at in range(blocks) if made[at].get("type") not in _UNMARKABLE]
    if able:
        made[able[-1]] = {**made[able[-1]], **_MARK}
    return {**message, "content": made}
