"""A message's text and the names in it, made safe to stand on a line of a summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill_worker.old_reading.sentences import one_line

__all__ = ["content_text", "safe_name", "speaker"]

_NAME = re.compile(r"[^\w.-]+")
_RESERVED: Final = frozenset(
    {
        *("user", "assistant", "system", "developer", "tool", "function"),
        *("call", "result", "earlier"),
    }
)


def content_text(content: Any) -> str:
    """The text of a message; other parts as their type in brackets, never their data."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return "" if content is None else str(content)
    return "\n".join(_parts(content))


def _parts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            text = part.get("text", part.get("refusal"))
            kind = one_line(str(part.get("type") or "part"))[:32]
            yield text if isinstance(text, str) else f"[{_PART_NAMES.get(kind, kind)}]"


_PART_NAMES: Final = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "input_file": "file",
}


def safe_name(name: Any) -> str:
    """A name that can stand before the colon of a line: no spaces, colons or other marks."""
    return _NAME.sub("_", one_line(str(name or ""))[:64]).strip("_")


def speaker(name: Any) -> str:
    """A participant's name, unless it poses as a role or a number."""
    safe = safe_name(name)
    return "" if safe.lower() in _RESERVED or not safe[:1].isalpha() else safe
