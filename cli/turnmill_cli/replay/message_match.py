"""Whether a message is another one as a context may show it: whole, or shortened inside.

Written against what a reader sees, not against the code that shortens, so that it can disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import NO_RESULT, UNKNOWN_CALL, repair

__all__ = ["is_shown", "is_stub"]

_NOTE = re.compile(r"\[… \d+ (?:characters removed …|lines? left out)\]")
_REMOVED_PART = re.compile(r"\[\w+ removed\]|\[Image (from Step \d+ )?removed to save context\]")
_SAME = ("role", "name", "tool_call_id")


def is_stub(message: JsonMessage) -> bool:
    """Whether it answers, in nobody's name, a call without a result, or calls for a lost result."""
    names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    is_answer = message["role"] == "tool" and _is_text(message.get("content"), NO_RESULT)
    return is_answer or names == [UNKNOWN_CALL]


def is_shown(shown: JsonMessage, pushed: JsonMessage, *, thinned: bool = False) -> bool:
    """Whether ``shown`` is ``pushed``, or says in notes what was removed from it.

    ``thinned``: some of its calls may be gone, with their results.
    """
    if _is_shortened(shown, pushed):
        return True
    if thinned and pushed.get("tool_calls"):
        return _is_shortened(shown, _with_calls_of(pushed, shown))
    return pushed["role"] == "tool" and _is_shortened(shown, repair([pushed])[-1])


def _with_calls_of(pushed: JsonMessage, shown: JsonMessage) -> JsonMessage:
    """``pushed`` without the calls that ``shown`` has not."""
    left = {call["id"] for call in shown.get("tool_calls") or ()}
    calls = [call for call in pushed["tool_calls"] if call["id"] in left]
    plain = {key: value for key, value in pushed.items() if key != "tool_calls"}
    return {**plain, "tool_calls": calls} if calls else plain


def _is_shortened(shown: JsonMessage, pushed: JsonMessage) -> bool:
    if shown.keys() != pushed.keys() or any(shown.get(k) != pushed.get(k) for k in _SAME):
        return False
    special = {*_SAME, "content", "tool_calls"}
    return (
        _is_content(shown.get("content"), pushed.get("content"))
        and _are_calls(shown.get("tool_calls"), pushed.get("tool_calls"))
        and all(_is_text(shown[key], pushed[key]) for key in shown.keys() - special)
    )


def _is_content(shown: Any, pushed: Any) -> bool:
    if not (isinstance(shown, list) and isinstance(pushed, list)):
        return _is_text(shown, pushed)
    return len(shown) == len(pushed) and all(map(_is_part, shown, pushed))


def _is_part(shown: Any, pushed: Any) -> bool:
    if shown == pushed:
        return True
    text = shown.get("text")
    if "text" in pushed:
        return {**shown, "text": ""} == {**pushed, "text": ""} and _is_text(text, pushed["text"])
    return isinstance(text, str) and _REMOVED_PART.fullmatch(text) is not None


def _are_calls(shown: Sequence[Any] | None, pushed: Sequence[Any] | None) -> bool:
    if not shown or not pushed:
        return shown == pushed
    return len(shown) == len(pushed) and all(map(_is_call, shown, pushed))


def _is_call(shown: Any, pushed: Any) -> bool:
    if shown == pushed:
        return True
    if shown["id"] != pushed["id"] or shown["function"]["name"] != pushed["function"]["name"]:
        return False
    return _are_arguments(shown["function"]["arguments"], pushed["function"]["arguments"])


def _are_arguments(shown: str, pushed: str) -> bool:
    """Arguments stay JSON: shortened ones are an object that quotes what is left of them."""
    try:
        quoted = json.loads(shown)["removed"]
    except (ValueError, TypeError, KeyError):
        return False
    # Shortened by a commit and again by a read, it quotes the beginning of a quotation.
    return _is_text(quoted, pushed) or (isinstance(quoted, str) and quoted.startswith('{"removed'))


def _is_text(shown: Any, pushed: Any) -> bool:
    """Whether a text is the other's beginning, a note, and its end; or simply equal.

    A text shortened by a commit may be shortened again by a read: what lies between the first
    note's beginning and the last one's end is not looked at.
    """
    if shown == pushed:
        return True
    if not isinstance(shown, str) or not isinstance(pushed, str):
        return False
    starts = [note.start() for note in _NOTE.finditer(shown)]
    ends = [note.end() for note in _NOTE.finditer(shown)]
    return any(
        pushed.startswith(shown[:start]) and pushed.endswith(shown[end:])
        for start in starts
        for end in ends
        if start < end
    )
