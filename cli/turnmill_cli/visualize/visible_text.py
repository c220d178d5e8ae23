"""Text as a page can show it: nothing invisible, nothing that reorders, nothing endless."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "Text",
    "as_json",
    "clock",
    "pretty_json",
    "short_label",
    "size",
    "span",
    "text",
    "visible",
]

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
