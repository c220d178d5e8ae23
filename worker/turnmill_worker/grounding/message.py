"""Memories as a message: what an agent is given to read beside its conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from turnmill_worker.grounding.index import Found
from turnmill_worker.records import Memory

__all__ = ["MEMORIES_NAME", "memories_message"]

MEMORIES_NAME: Final = "memories"
"""The message's ``name``; a message of this name never becomes a memory itself."""

_HEAD: Final = "[Memories that may help, not part of the conversation]"
_END: Final = "[End]"
_MESSAGE_TOKENS: Final = 3 + 1
"""Framing of a message that has a name (``tokens.messages``)."""

# What could pass for our own lines, wherever it stands in a memory.
_FRAME = re.compile(r"\[(?= ?/? ?(?:end\b|memories\b))", re.IGNORECASE)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)


def memories_message(
    found: Sequence[Found], budget_tokens: int, count: Callable[[str], int]
) -> dict[str, str] | None:
    """A user message with the memories that fit into the budget whole, most relevant first.

    A memory is one line, whatever it holds, and cannot end the list or begin another. One that
    does not fit is left out, and smaller ones after it may still be taken. None when none fits.
    """
    fixed = _MESSAGE_TOKENS + count("user") + count(MEMORIES_NAME)
    lines: list[str] = []
    for line in dict.fromkeys(_line(each.memory) for each in found):
        if fixed + count(_content([*lines, line])) <= budget_tokens:
            lines.append(line)
    if not lines:
        return None
    return {"role": "user", "name": MEMORIES_NAME, "content": _content(lines)}


def _content(lines: Sequence[str]) -> str:
    return "\n".join((_HEAD, *lines, _END))


def _line(memory: Memory) -> str:
    places = {"turn": f"turn {memory.position}", "summary": "summary", "pushed": "note"}
    said = (memory.session, places[memory.kind], memory.speaker)
    label = ", ".join(_plain(part) for part in said if part)
    return f"- ({label}) {_plain(memory.text)}"


def _plain(text: str) -> str:
    """The text on one line, without invisible characters and without our brackets."""
    return _FRAME.sub("(", " ".join(_INVISIBLE.sub("", text).split()))
