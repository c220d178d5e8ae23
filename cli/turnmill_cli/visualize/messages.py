"""Messages as a page shows them: nothing invisible, nothing that reorders, parts recognizable."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from turnmill.contract.context import JsonMessage
from turnmill.contract.image_tokens import ImageRef, dimensions, is_base64

# --- text -----------------------------------------------------------------------------------------

FOLD_CHARS = 1200
FOLD_LINES = 16
PREVIEW_CHARS = 420
PREVIEW_LINES = 6
_MOST_LAID_OUT = 200_000
_MOST_LABEL = 200
_MOST_INNER = 2000

_CONTROLS = (*(code for code in range(32) if chr(code) not in "\t\n"), *range(0x7F, 0xA0))
# What reorders the text around it, and what cannot be seen; joiners make emoji, and stay.
_HIDDEN = (0x00AD, 0x061C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060)
_HIDDEN += (*range(0x2061, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC), 0xFFFE, 0xFFFF)
_SHOWN = {code: f"⟦U+{code:04X}⟧" for code in (*_CONTROLS, *_HIDDEN)}
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and how it begins when it is too long to be shown at once.

    Attributes:
        preview: ``""`` when the text is short.
    """

    whole: str
    preview: str = ""

    @property
    def measure(self) -> str:
        """How long it is, in words."""
        lines = self.whole.count("\n") + 1
        return f"{len(self.whole):,} characters" + (f", {lines:,} lines" if lines > 1 else "")


def text(raw: str) -> Text:
    """The text made visible, with a preview when it is long."""
    whole = visible(raw)
    if len(whole) <= FOLD_CHARS and whole.count("\n") < FOLD_LINES:
        return Text(whole)
    lines = whole[:PREVIEW_CHARS].split("\n", PREVIEW_LINES)
    return Text(whole, "\n".join(lines[:PREVIEW_LINES]).rstrip())


def visible(raw: str) -> str:
    """The text with a sign for each control, hidden or reordering character."""
    if raw.isascii() and raw.isprintable():
        return raw
    unbroken = raw.replace("\r\n", "\n").translate(_SHOWN)
    tagged = _TAGS.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", unbroken)
    return _SURROGATES.sub("\ufffd", tagged)


def short_label(raw: str) -> str:
    """A label's text: visible, and cut where only an attack would go on."""
    if len(raw) <= _MOST_LABEL:
        return visible(raw)
    return f"{visible(raw[:_MOST_LABEL])}… [{len(raw):,} characters]"


def pretty_json(raw: str) -> str:
    """JSON over several lines, when it says the same character by character; else as it is."""
    if len(raw) > _MOST_LAID_OUT or not raw.lstrip().startswith(("{", "[")):
        return raw
    try:
        parsed = json.loads(raw)
        spread = json.dumps(parsed, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return raw
    return spread if "".join(spread.split()) == "".join(raw.split()) else raw


def as_json(value: Any) -> str:
    """A value as JSON, with long strings in it cut short and measured."""
    try:
        return json.dumps(_shortened(value), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return "[nested too deeply to be shown]"


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MOST_INNER:
        return f"{value[:80]}… [{len(value):,} characters]"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    return value


def span(first: int, last: int, noun: str = "turn") -> str:
    """``turn 7``, ``turns 7-9``, with a typographer's dash."""
    return f"{noun} {first}" if first == last else f"{noun}s {first}–{last}"


def size(count: int) -> str:
    """Bytes for people."""
    kib = 1024
    if count < kib:
        return f"{count} bytes"
    return f"{count / kib:,.0f} KiB" if count < kib * kib else f"{count / kib / kib:,.1f} MiB"


def clock(at_ms: int) -> str:
    """The moment in UTC, or ``""`` for none."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if at_ms else ""
    except (ValueError, OverflowError, OSError):  # a file may say anything
        return ""


# --- images: bytes a page carries itself, each of them once ---------------------------------------

_SHOWABLE = re.compile(r"data:(image/[\w.+-]{1,60})(?:;[\w.+-]+=[\w.+-]+){0,4};base64,")
_HEAD_CHARS = 65_536  # a multiple of four
_MOST_URL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image where it is shown.

    Attributes:
        url: its data URL where it is shown first; ``""`` where it is shown again, or cannot be.
        id: of the place that carries the data; ``""`` when it cannot be shown.
        where: that place, in words, when it is another.
        width, height: in pixels; 0 when unknown.
        about: what it is, in words.
    """

    url: str = ""
    id: str = ""
    where: str = ""
    width: int = 0
    height: int = 0
    about: str


class PageImages:
    """The images of one page; remembers which it carries already."""

    def __init__(self) -> None:
        self._first: dict[str, Image] = {}

    def image(self, url: Any, where: str) -> Image:
        """The image at this URL, shown at a place such as ``turn 7``.

        Only images carried inline are shown: a page must not ask any server for anything.
        """
        head = _SHOWABLE.match(url) if isinstance(url, str) else None
        if head is None or not is_base64(url[head.end() :]):
            return Image(about=_unshown(url))
        first = self._first.get(url)
        if first is not None:
            return first
        made = self._first[url] = _shown(url, head, f"image-{len(self._first) + 1}", where)
        return replace(made, url=url, where="")


def _shown(url: str, head: re.Match[str], name: str, where: str) -> Image:
    data = binascii.a2b_base64(url[head.end() : head.end() + _HEAD_CHARS])
    width, height = dimensions(data) or (0, 0)
    sides = f", {width}×{height} pixels" if width else ""
    about = f"{head[1]}{sides}, {size((len(url) - head.end()) * 3 // 4)}"
    return Image(id=name, where=where, width=width, height=height, about=about)


def _unshown(url: Any) -> str:
    if not isinstance(url, str):
        return "image without an address"
    ref = ImageRef.parse(url)
    if ref is not None:
        return f"image, {ref.media_type}, {ref.width}×{ref.height} pixels, not part of this file"
    if url.startswith("data:"):
        kind = visible(url[5:65].partition(",")[0].partition(";")[0]) or "of no stated type"
        return f"not shown: data of type {kind}, {len(url):,} characters"
    shown = visible(url[:_MOST_URL]) + ("…" if len(url) > _MOST_URL else "")
    return f"not loaded: {shown}"


# --- messages -------------------------------------------------------------------------------------

_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_PREVIEW_OF_CALL = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """One part of a message.

    Attributes:
        kind: how it is laid out.
        label: what stands before it, such as a function's name.
    """

    kind: Literal["text", "code", "call", "image"]
    label: str = ""
    text: Text | None = None
    image: Image | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message.

    Attributes:
        role: as pushed; ``style`` is one the page has a colour for.
        note: beside the role: its name, or the call it answers.
    """

    role: str
    style: str
    note: str
    parts: tuple[MessagePart, ...]


class MessageFormatter:
    """Shows the messages of one conversation, in order; knows which call a result answers."""

    def __init__(self, images: PageImages) -> None:
        self._images = images
        self._calls: dict[str, str] = {}

    def shown(self, messages: Sequence[JsonMessage], where: str) -> tuple[ShownMessage, ...]:
        """The messages of one turn."""
        return tuple(self._message(message, where) for message in messages)

    def _message(self, message: Mapping[str, Any], where: str) -> ShownMessage:
        role = str(message.get("role", "unknown"))
        parts = [*self._content(message.get("content"), role, where)]
        calls = message.get("tool_calls")
        parts += [self._call(call) for call in calls] if isinstance(calls, list | tuple) else []
        others = {key: message[key] for key in message if key not in _KNOWN and message[key]}
        parts += [_other(key, value) for key, value in others.items()]
        return ShownMessage(
            role=short_label(role),
            style=role if role in ("system", "developer", "user", "assistant", "tool") else "tool",
            note=short_label(self._note(message, role)),
            parts=tuple(parts),
        )

    def _note(self, message: Mapping[str, Any], role: str) -> str:
        answered = message.get("tool_call_id")
        if role == "tool" and isinstance(answered, str):
            # An id may be used again for another call: the last one before counts.
            return f"result of {self._calls.get(answered, answered)}"
        name = message.get("name")
        return str(name) if name else ""

    def _content(self, content: Any, role: str, where: str) -> Iterator[MessagePart]:
        if content is None or content == "":
            return
        parts = content if isinstance(content, list | tuple) else [content]
        for part in parts:
            if isinstance(part, str):
                yield _text(part, role)
            elif not isinstance(part, Mapping):
                yield MessagePart(kind="code", text=text(as_json(part)))
            elif isinstance(part.get("text"), str):
                kind = str(part.get("type", "text"))
                yield _text(part["text"], role, "" if kind == "text" else kind)
            elif part.get("type") == "image_url":
                image = part.get("image_url")
                url = image.get("url") if isinstance(image, Mapping) else image
                yield MessagePart(kind="image", image=self._images.image(url, where))
            else:
                yield _other(str(part.get("type", "part")), dict(part))

    def _call(self, call: Any) -> MessagePart:
        if not isinstance(call, Mapping):
            return _other("call", call)
        function = call.get("function") or call.get("custom") or {}
        function = function if isinstance(function, Mapping) else {}
        name = str(function.get("name") or call.get("type") or "call")
        given = function.get("arguments", function.get("input", ""))
        if isinstance(call.get("id"), str):
            self._calls[call["id"]] = name
        told = given if isinstance(given, str) else as_json(given)
        spread = pretty_json(told) if len(told) > _PREVIEW_OF_CALL else told
        return MessagePart(kind="call", label=short_label(name), text=text(spread))


def _text(raw: str, role: str, label: str = "") -> MessagePart:
    spread = pretty_json(raw) if role == "tool" else raw
    is_code = role == "tool" or spread is not raw
    return MessagePart(
        kind="code" if is_code else "text", label=short_label(label), text=text(spread)
    )


def _other(label: str, value: Any) -> MessagePart:
    told = value if isinstance(value, str) else as_json(value)
    return MessagePart(kind="code", label=short_label(label), text=text(told))
