"""Messages as text a person or a model can read; images by a word, never by their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import author, is_memories
from turnmill.contract.names import Seq

__all__ = ["readable"]

_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def readable(records: Sequence[tuple[Seq, JsonMessage]]) -> str:
    """The records as ``#seq role: text``, calls and results in words; memories left out.

    Further lines of a text are indented: no message can begin another.
    """
    return "\n".join(
        f"#{seq} {author(message)}: " + _LINE_END.sub("\n    ", " ".join(_words(message)))
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
