"""A conversation in pieces that fit a model's window: all of it, once, cut where it may be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import segments
from turnmill.contract.names import Seq
from turnmill_worker.summarizers.openai.prompts import Entry

__all__ = ["Show", "chunks", "packed"]

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
