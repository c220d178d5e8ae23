"""The parts that a message's content may have, and the error for all others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["known_type", "unreadable"]

_KNOWN: Final = frozenset(
    {
        *("text", "image_url", "input_audio", "file", "refusal"),
        *("image", "document", "search_result", "container_upload", "input_image", "input_file"),
    }
)
"""Those of the chat API, and what other dialects show by a reference only."""

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,39}")


def unreadable(kind: object, known: Iterable[str]) -> str:
    """What is wrong with a part of this type; names it if it looks like a type, and not content."""
    named = isinstance(kind, str) and _TYPE.fullmatch(kind)
    said = f"type {kind}" if named else "another type"
    return f"a part of {said} cannot be read; known are {', '.join(sorted(known))}"


def known_type(kind: str) -> str:
    """The type, if a part may have it.

    Raises:
        ValueError: nobody here can read such a part.
    """
    if kind not in _KNOWN:
        raise ValueError(unreadable(kind, _KNOWN))
    return kind
