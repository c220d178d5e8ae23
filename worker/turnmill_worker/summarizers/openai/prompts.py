"""The prompts: instructions that never change, and data between marks nobody could have guessed.

Records are shown as text, calls in words, images by a word; in pieces that fit a model's window.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Any, Final

from turnmill.contract.base64_text import without_base64
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import segments
from turnmill.contract.marks import author
from turnmill.contract.names import Seq
from turnmill_worker.summarizers.openai.endpoint import Prompt
from turnmill_worker.summarizers.redaction import Redactor

_NONCE_BYTES: Final = 6
_WORDS_PER_TOKEN: Final = 0.7

# What could pass for our marks; and what some servers read as the control tokens of a chat.
_LOOKALIKE = re.compile(
    r"<(?=<\s{0,8}(?:[0-9a-f]{8}|summary so far|notes|conversation"
    r"|end\b|SYS\b|/SYS\b"
    r"|(?:latest input|memories|reflections|session|system prompt)\s{1,8}[0-9a-f]{6}))"
    r"|<(?=\|)|\[(?=/?INST\])",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message, or a part of one, as a model is shown it.

    Attributes:
        seq: 0 for what is no message of the conversation.
        note: what part it is, or ``""``.
    """

    seq: int
    role: str
    text: str
    name: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Data of one kind: ``summary so far``, ``conversation``, …, or a template's own."""

    kind: str
    text: str


class Marks:
    """Puts data between marks with one request's code."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce

    def entry(self, entry: Entry) -> str:
        """A message under its mark; nothing in it looks like a mark."""
        number = f"#{entry.seq}" if entry.seq else ""
        words = (number, entry.role, _NAME.sub("_", entry.name)[:64], entry.note)
        label = " ".join(word for word in words if word)
        return f"<<{self.nonce} {label}>>\n{entry.text}"

    def prompt(self, system: str, blocks: Iterable[Block], closing: Sequence[str]) -> Prompt:
        """The instructions, and a user message of the blocks and what is to be done with them."""
        data = (self.block(block) for block in blocks if block.text)
        return Prompt(system, "\n\n".join([*data, *closing]))

    def block(self, block: Block) -> str:
        """A block between its marks."""
        return f"<<{block.kind} {self.nonce}>>\n{block.text}\n<<end {self.nonce}>>"

    def closing(self, name: str, limit: int, **more: str) -> str:
        """The last words of a prompt."""
        words = str(int(limit * _WORDS_PER_TOKEN))
        return text_of(name, nonce=self.nonce, limit=str(limit), words=words, **more)


def fresh_nonce(texts: Sequence[str], make: Callable[[int], str] = secrets.token_hex) -> str:
    """A random code that is in none of the texts."""
    while True:
        nonce = make(_NONCE_BYTES)
        if not any(nonce in text for text in texts):
            return nonce


def neutral(text: str) -> str:
    """The text with a blank in whatever could pass for a mark or a server's control token."""
    return _LOOKALIKE.sub(lambda mark: f"{mark[0]} ", text)


def instructions() -> str:
    """What every model is told, word for word the same."""
    return text_of("items", data=text_of("data"))


def text_of(name: str, **values: str) -> str:
    """One of the texts in ``prompts/``, its placeholders filled with words of ours."""
    text = _load(name)
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text


@cache
def _load(name: str) -> str:
    folder = resources.files("turnmill_worker.summarizers").joinpath("prompts")
    return folder.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


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
    short = without_base64(_BARE.sub(_bare_image, short))
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


Show = Callable[[Entry], str]
"""An entry as it stands in a prompt."""

_LOOK_BACK: Final = 5
"""A text is cut at a line's or word's end within its last fifth, if there is one."""


def chunks(
    records: Sequence[tuple[Seq, JsonMessage]],
    entries: Sequence[Entry],
    limit: int,
    show: Show,
    count: Callable[[str], int],
) -> list[str]:
    """The entries as texts of at most ``limit`` tokens, oldest first; ``entries[i]`` is a record's.

    A turn, and a call with its results, stay together unless they alone are over the limit; then
    they are cut between messages, and a message over the limit is cut into numbered parts.
    """
    whole = "\n".join(map(show, entries))
    # No token is less than a byte: what has no more of these is one part, and need not be counted.
    if entries and len(whole.encode("utf-8", "surrogatepass")) < limit:
        return [whole]
    return packed(_units(records, entries, limit, show, count), limit)


def packed(units: Iterator[tuple[str, int]] | Sequence[tuple[str, int]], limit: int) -> list[str]:
    """Texts with their tokens, joined as far as the limit allows, in order."""
    found: list[list[str]] = []
    room = 0
    for text, tokens in units:
        if not found or tokens > room:
            found.append([])
            room = limit
        found[-1].append(text)
        room -= tokens
    return ["\n".join(texts) for texts in found]


def _units(
    records: Sequence[tuple[Seq, JsonMessage]],
    entries: Sequence[Entry],
    limit: int,
    show: Show,
    count: Callable[[str], int],
) -> Iterator[tuple[str, int]]:
    """What must stay together, as text with its tokens."""
    for group in _groups(records, entries):
        texts = [show(entry) for entry in group]
        # One more for the line's end between two.
        sizes = [count(text) + 1 for text in texts]
        if sum(sizes) <= limit:
            yield "\n".join(texts), sum(sizes)
            continue
        for entry, text, size in zip(group, texts, sizes, strict=True):
            if size <= limit:
                yield text, size
            else:
                yield from _parts(entry, limit, show, count)


def _groups(
    records: Sequence[tuple[Seq, JsonMessage]], entries: Sequence[Entry]
) -> Iterator[list[Entry]]:
    turns: list[list[Entry]] = []
    messages: list[list[JsonMessage]] = []
    seen: int | None = None
    for (seq, message), entry in zip(records, entries, strict=True):
        if seq != seen:
            turns.append([])
            messages.append([])
            seen = seq
        turns[-1].append(entry)
        messages[-1].append(message)
    groups, _ = segments(turns, messages)
    for group in groups:
        yield [entry for turn in group for entry in turn]


def _parts(
    entry: Entry, limit: int, show: Show, count: Callable[[str], int]
) -> Iterator[tuple[str, int]]:
    """One message in parts that say which they are; together they are its text."""
    frame = count(show(replace(entry, text="", note="part 9999 of 9999"))) + 2
    pieces = list(_cut(entry.text, max(limit - frame, 1), count))
    for at, piece in enumerate(pieces, 1):
        text = show(replace(entry, text=piece, note=f"part {at} of {len(pieces)}"))
        yield text, count(text) + 1


def _cut(text: str, limit: int, count: Callable[[str], int]) -> Iterator[str]:
    tokens = count(text)
    if tokens <= limit or len(text) <= 1:
        yield text
        return
    # Pieces of equal length need not have equal tokens: those over the limit are cut again.
    pieces = -(-tokens // limit)
    size = max(len(text) // pieces, 1) if pieces > 1 else len(text)
    start = 0
    while start < len(text):
        end = _seam(text, start, min(start + size, len(text)))
        yield from _cut(text[start:end], limit, count) if end - start < len(text) else (text,)
        start = end


def _seam(text: str, start: int, end: int) -> int:
    """Where to cut at or before ``end``: behind a line, else behind a word."""
    if end >= len(text):
        return len(text)
    least = end - max((end - start) // _LOOK_BACK, 0)
    for mark in ("\n", " "):
        at = text.rfind(mark, least, end)
        if at > start:
            return at + 1
    return end
