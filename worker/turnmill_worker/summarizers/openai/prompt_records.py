"""Records as a model is shown them: text, calls in words, images by a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import author
from turnmill.contract.names import Seq
from turnmill_worker.summarizers.openai.prompts import Entry, neutral
from turnmill_worker.summarizers.redaction import Redactor

__all__ = ["cleaned", "entry_of"]

# Images inside text: a data URL, or what the bytes of PNG, JPEG, GIF, WebP, TIFF, BMP, AVIF, HEIC
# and SVG begin with; in one run, or in lines, as MIME has them; JSON may have escaped both.
# Atomic or possessive: nothing is kept to go back to. A group is atomic, for until Python 3.11.5 a
# possessive one forgot what it had matched (cpython#106052).
_RUN = r"(?>(?:[A-Za-z0-9+/=_%-]++|\\/)+)"
_BREAK = r"(?>(?:\\r|\\n|\r|\n){1,4})[ \t]{0,16}+"
_LINES = (
    rf"(?>(?:{_BREAK}(?=(?:[A-Za-z0-9+/=_-]|\\/){{60}}){_RUN})*)"
    rf"(?:{_BREAK}(?:[A-Za-z0-9+/_-]|\\/){{0,80}}=)?=?"
)
_DATA_URL = re.compile(
    r"[dD][aA][tT][aA]:[\w.+-]{1,64}\\?/[\w.+-]{1,64}(?:;[\w.=+-]{1,64}){0,4},"
    rf"(?:{_BREAK})?{_RUN}{_LINES}"
)
_BARE = re.compile(
    r"(?:iVBORw0KGgo|\\?[/_]9j\\?[/_]|R0lGOD|UklGR|SUkqA|TU0AK"
    rf"|Qk[A-Za-z0-9+/]{{6}}AAAA|AAAA[A-Za-z0-9+/]GZ0eX|PHN2Zy){_RUN}{_LINES}"
)
_WITHIN = re.compile(r"(?<!\\n)(?<=[A-Za-z0-9+/])")
"""Finds a place inside a run, where no image begins. Checked only after a match: at the head of
the pattern it would be checked at every character."""

_LEAST_URL_CHARS = 80
_LEAST_BARE_CHARS = 256
_IMAGES = ("image_url", "input_image", "image")


def entry_of(seq: Seq, message: JsonMessage, redactor: Redactor | None) -> Entry:
    """A message as it is shown: redacted, without base64, and unable to pass for a mark."""
    text = "\n".join(line for line in _lines(message) if line)
    name = message.get("name")
    return Entry(
        seq=seq,
        role=author(message),
        text=cleaned(text, redactor),
        name=cleaned(name, redactor) if isinstance(name, str) else "",
    )


def cleaned(text: str, redactor: Redactor | None) -> str:
    """A text as it may leave: redacted, without base64, and unable to pass for a mark."""
    short = _DATA_URL.sub(partial(_image, least=_LEAST_URL_CHARS), text)
    short = _BARE.sub(_bare_image, short)
    return neutral(short if redactor is None else redactor(short))


def _bare_image(found: re.Match[str]) -> str:
    if _WITHIN.match(found.string, found.start()):
        return found[0]
    return _image(found, least=_LEAST_BARE_CHARS)


def _image(found: re.Match[str], *, least: int) -> str:
    return "[image]" if len(found[0]) >= least else found[0]


def _lines(message: JsonMessage) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield _part(part)
    if isinstance(message.get("refusal"), str):
        yield f"refuses: {message['refusal']}"
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        arguments = function.get("arguments", function.get("input", ""))
        yield f"calls {function.get('name')}({arguments})"


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind = str(part.get("type"))
    return "[image]" if kind in _IMAGES else f"[{kind[:32]}]"
