"""Messages as text a person or a model can read; images by a word, never by their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmill.contract.context import JsonMessage
from turnmill.contract.memories_message import is_memories
from turnmill.contract.names import Seq

__all__ = ["readable"]


def readable(records: Sequence[tuple[Seq, JsonMessage]]) -> str:
    """The records as lines ``#seq role: text``, calls and results in words; memories left out."""
    return "\n".join(
        f"#{seq} {message['role']}: {' '.join(_words(message))}"
        for seq, message in records
        if not is_memories(message)
    )


def _words(message: JsonMessage) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        text = part.get("text")
        yield text if isinstance(text, str) else f"[{part.get('type')}]"
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        yield f"calls {function.get('name')}({function.get('arguments', function.get('input'))})"
