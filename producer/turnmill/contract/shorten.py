"""Shortens texts inside messages: cuts the middle out, and a receipt says so.

Used where whole turns cannot go: a single message larger than the limit, or bulky results in
turns that must stay. Pure; the caller says how tokens are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from turnmill.contract.base64_text import without_base64
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import CountMessages

IMAGE_REMOVED = "[Image removed to save context]"
"""The text that replaces an image."""

_Cut = Callable[[str, int], str]

_KEEP_HEAD = 0.6
"""Share of the kept characters taken from the front: openings say what a text is."""


def shorten(
    messages: Sequence[JsonMessage], limit: int, count: CountMessages, *, whole_lines: bool = False
) -> list[JsonMessage] | None:
    """The messages cut to at most ``limit`` tokens, or None when even empty texts do not fit.

    The longest texts give first: every text longer than a common cap is cut to that cap, and the
    cap is the largest that fits. Runs of base64 in texts go before anything else. Roles, names,
    call ids and pairing are never touched; images, and what a dialect says beside, go only when
    the texts alone do not suffice, and then as a whole; a tool call's arguments stay valid JSON.
    With ``whole_lines``, texts lose whole lines: each line left begins with who said it.
    """
    cut = _cap_lines if whole_lines else _cap_text
    if count(messages) <= limit:
        return list(messages)
    messages = [_without_base64(message) for message in messages]
    if count(messages) <= limit:
        return messages
    for images in (True, False):
        low, high = 0, max((len(text) for m in messages for text in texts_of(m)), default=0)
        if count(_capped(messages, low, cut, images=images)) > limit:
            continue
        while high - low > max(8, low // 50):
            middle = (low + high) // 2
            fits = count(_capped(messages, middle, cut, images=images)) <= limit
            low, high = (middle, high) if fits else (low, middle)
        return _capped(messages, low, cut, images=images)
    return None


def _without_base64(message: JsonMessage) -> JsonMessage:
    """The message with a note for each run of data; the same one where it has none."""
    changed = dict(message)
    content = message.get("content")
    if isinstance(content, str):
        changed["content"] = without_base64(content)
    elif isinstance(content, list):
        changed["content"] = [_part_without_base64(part) for part in content]
    if message.get("tool_calls"):
        changed["tool_calls"] = [_call_without_base64(call) for call in message["tool_calls"]]
    return message if changed == message else changed


def _part_without_base64(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("text")
    return {**part, "text": without_base64(text)} if isinstance(text, str) else part


def _call_without_base64(call: dict[str, Any]) -> dict[str, Any]:
    return _with_said(call, without_base64(_said_in(call)))


def _said_in(call: dict[str, Any]) -> str:
    """A call's arguments, or a custom tool's input."""
    function, custom = call.get("function"), call.get("custom")
    return str(function["arguments"] if function else (custom or {}).get("input", ""))


def _with_said(call: dict[str, Any], text: str) -> dict[str, Any]:
    if function := call.get("function"):
        return {**call, "function": {**function, "arguments": text}}
    return {**call, "custom": {**call["custom"], "input": text}} if "custom" in call else call


def texts_of(message: JsonMessage) -> list[str]:
    """The texts of the message that may be cut."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts += [p["text"] for p in content if isinstance(p.get("text"), str)]
    texts += map(_said_in, message.get("tool_calls") or ())
    texts += [message[key] for key in _extra_texts(message)]
    return texts


def _extra_texts(message: JsonMessage) -> list[str]:
    known = ("role", "content", "name", "tool_call_id")
    return [key for key, value in message.items() if key not in known and isinstance(value, str)]


def _capped(
    messages: Sequence[JsonMessage], cap: int, cut: _Cut, *, images: bool
) -> list[JsonMessage]:
    return [_cap_message(message, cap, cut, images=images) for message in messages]


def _cap_message(message: JsonMessage, cap: int, cut: _Cut, *, images: bool) -> JsonMessage:
    changed = dict(message)
    if not images:
        changed.pop("native", None)
    content = message.get("content")
    if isinstance(content, str):
        changed["content"] = cut(content, cap)
    elif isinstance(content, list):
        changed["content"] = [_cap_part(part, cap, images=images) for part in content]
    for key in _extra_texts(message):
        changed[key] = _cap_text(message[key], cap)
    if message.get("tool_calls"):
        changed["tool_calls"] = [_cap_call(call, cap) for call in message["tool_calls"]]
    return message if changed == message else changed


def _cap_part(part: dict[str, Any], cap: int, *, images: bool) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {**part, "text": _cap_text(part["text"], cap)}
    if images:
        return part
    if part.get("type") == "image_url":
        return {"type": "text", "text": IMAGE_REMOVED}
    return {"type": "text", "text": f"[{part.get('type', 'part')} removed]"}


def _cap_call(call: dict[str, Any], cap: int) -> dict[str, Any]:
    arguments = _said_in(call)
    if len(arguments) <= cap:
        return call
    if not call.get("function"):
        return _with_said(call, _cap_text(arguments, cap))
    # Half a JSON text is not JSON, and providers parse arguments: keep what was cut as a string.
    note = json.dumps({"removed": _cap_text(_said(arguments), cap)}, ensure_ascii=False)
    return call if len(note) >= len(arguments) else _with_said(call, note)


def _said(arguments: str) -> str:
    """The arguments, or what an earlier cut quotes of them: each quotation of one says less."""
    if arguments.startswith('{"removed": "'):
        with suppress(ValueError):
            match json.loads(arguments):
                case {"removed": str(quoted), **more} if not more:
                    return quoted
    return arguments


def characters(text: str) -> int:
    """How many it had before notes stood in it: what is cut again says less of itself."""
    return len(text) + sum(int(note[1]) - len(note[0]) for note in _NOTE.finditer(text))


_NOTE: Final = re.compile(r"\[… (\d{1,9}) characters (?:removed …|left out)\]")


def _cap_lines(text: str, cap: int) -> str:
    """The text's first and last lines; a line alone is cut inside."""
    head, tail = text[: int(cap * _KEEP_HEAD)], text[len(text) - cap + int(cap * _KEEP_HEAD) :]
    if "\n" not in text[len(head) :]:
        return _cap_text(text, cap)
    head = head.rpartition("\n")[0] or head
    tail = tail.partition("\n")[2]
    removed = characters(text[len(head) : len(text) - len(tail)])
    shorter = f"{head}\n[… {removed} characters removed …]\n{tail}"
    return text if len(text) <= cap or len(shorter) >= len(text) else shorter


def _cap_text(text: str, cap: int) -> str:
    if len(text) <= cap:
        return text
    head = int(cap * _KEEP_HEAD)
    tail = len(text) - (cap - head)
    note = f"[… {characters(text[head:tail])} characters removed …]"
    return text if len(note) + cap >= len(text) else text[:head] + note + text[tail:]
