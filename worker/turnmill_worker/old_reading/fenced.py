"""The command an assistant writes into its text, where no tool calls exist."""

from __future__ import annotations

import re
from typing import Final

from turnmill_worker.old_reading.actions import Action, described, ordered

__all__ = ["last_action"]

_FENCE: Final = "```"
_CLOSING = re.compile(r"</([A-Za-z][\w-]{0,40})>\s*\Z")
_FIELD = re.compile(r"<([A-Za-z][\w-]{0,40})(?:=([\w.-]{1,60}))?>([^<]*)</\1>")
_NAMED = re.compile(r"<[\w-]{1,41}[= ]([\w.-]{1,60})>")
_TAIL: Final = 20_000
_LABELLED = re.compile(
    r"^[ \t]{0,8}\**(?:next )?(?:action|act|command|execute)\**[ \t]?:\**[ \t]*(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_ROWS: Final = 3
_LAST_WORDS: Final = 80
"""Who goes on for longer behind a block only shows it."""


def last_action(text: str) -> tuple[str, Action] | None:
    """What an assistant said before the last thing it orders, and that; None if it orders nothing.

    An order is a fenced block, an element whose fields are a call's arguments, or what stands
    behind a label that names it: ``Action: Click [24]``.
    """
    return _element(text) or _block(text) or _labelled(text)


def _labelled(text: str) -> tuple[str, Action] | None:
    start = max(len(text) - _TAIL, 0)
    labels = list(_LABELLED.finditer(text, start))
    order = text[labels[-1].end() :].strip() if labels else ""
    if not order or order.count("\n") >= _MOST_ROWS:
        return None
    return (text[: labels[-1].start()], ordered(" ".join(order.split())))


def _block(text: str) -> tuple[str, Action] | None:
    end = text.rfind(_FENCE)
    start = text.rfind(_FENCE, 0, end) if end > 0 else -1
    if start < 0 or len(text[end + len(_FENCE) :].strip()) > _LAST_WORDS:
        return None
    language, _, command = text[start + len(_FENCE) : end].partition("\n")
    if not command.strip():
        command = language
    return (text[:start], ordered(command)) if command.strip() else None


def _element(text: str) -> tuple[str, Action] | None:
    closing = _CLOSING.search(text[-_TAIL:])
    if closing is None:
        return None
    start = text.rfind(f"<{closing[1]}", 0, len(text.rstrip()) - len(closing[1]) - 3)
    if start < 0 or len(text) - start > _TAIL:
        return None
    body = text[start:]
    named = _NAMED.match(body)
    fields = {field[2] or field[1]: field[3].strip() for field in _FIELD.finditer(body, 1)}
    action = described(named[1] if named else closing[1], fields)
    return None if action is None else (text[:start], action)
