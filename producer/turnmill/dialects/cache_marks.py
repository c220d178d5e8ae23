"""Where Anthropic's prompt cache shall end: behind what changes only with a compaction.

Or where the agent's newest marks say. A request with more than four is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnmill.contract.context import JsonMessage

KEPT: Final = 2
"""Marks that messages keep: the newest writes the cache, the one before found what was written.

The other two that Anthropic takes are left for the agent's tools and its system prompt."""

_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_HOLDERS: Final = ("content", "source")
"""Where blocks stand in a message, in a result and in a document."""

_UNMARKABLE: Final = frozenset({"thinking", "redacted_thinking"})


def marked_text(text: str) -> list[JsonMessage]:
    """A system prompt with a mark behind it."""
    return [{"type": "text", "text": text, **_MARK}]


def unmarked(message: JsonMessage) -> JsonMessage:
    """The message without marks: those of many turns together are more than Anthropic takes."""
    return _Marks(most=0).of(message)


def with_last_marks(messages: list[JsonMessage]) -> list[JsonMessage]:
    """The messages with no more than the last ``KEPT`` of their marks; the same if they have none.

    A mark that lives shorter than one behind it goes first: Anthropic refuses that order.
    """
    if not any(map(_has_mark, messages)):
        return messages
    marks = _Marks(most=KEPT)
    return [marks.of(message) for message in reversed(messages)][::-1]


class _Marks:
    """Takes marks out, but for the last; to be shown messages and blocks from the newest on."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._is_long = False

    def of(self, block: JsonMessage) -> JsonMessage:
        """The message, or the block, with the marks that stay; the same if it has none."""
        if not _has_mark(block):
            return block
        found = dict(block)
        if "cache_control" in found and not self._takes(found):
            del found["cache_control"]
        for name in _HOLDERS:
            inner = found.get(name)
            if isinstance(inner, list):
                found[name] = [self.of(each) for each in reversed(inner)][::-1]
            elif isinstance(inner, Mapping):
                found[name] = self.of(dict(inner))
        return found

    def _takes(self, block: Mapping[str, Any]) -> bool:
        mark = block["cache_control"]
        is_long = isinstance(mark, Mapping) and mark.get("ttl") == "1h"
        if not self._left or self._is_long > is_long or block.get("type") in _UNMARKABLE:
            return False
        self._left -= 1
        self._is_long = is_long
        return True


def _has_mark(block: object) -> bool:
    if isinstance(block, str):
        return False
    if isinstance(block, list):
        return any(map(_has_mark, block))
    if not isinstance(block, Mapping):
        return False
    return "cache_control" in block or any(_has_mark(block.get(name)) for name in _HOLDERS)


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
