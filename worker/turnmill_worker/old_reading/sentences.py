"""Untrusted text made harmless, and cut into sentences; linear in its length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from turnmill.rules.clauses import is_abbreviated, is_ordinal
from turnmill_worker.old_reading.lexicon import GUARDS, RETRACTIONS

UNIT_CHARS: Final = 400
"""A unit longer than this is cut, so that one run of text cannot fill or miss the budget whole."""

_LOOSE_END: Final = 40
"""The last characters of a cut text are no unit of their own when there is no word among them."""

MOST_UNITS: Final = 5_000
"""Units of one text: what reads them compares each with some others."""

# Controls, line separators, bidirectional overrides and zero-width marks: a summary line must end
# where we end it and read the way it is stored. Lone surrogates cannot be encoded at all.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATA_URL = re.compile(r"data:([a-z]{1,16})/[\w.+-]{1,64};base64,[A-Za-z0-9+/=_-]*")
_BREAK: Final = r"\s,;:\"{}\[\]<>|。、，；"
# No language goes this far without a break: it is base64, a hash dump or noise. Tried only where
# a run begins, or every character of a shorter run would start a search of its own.
_LEAST_RUN: Final = 1024
_RUN = re.compile(rf"(?<![^{_BREAK}])[^{_BREAK}]{{{_LEAST_RUN},}}")
# Many write no capitals: then a mark behind a word ends a sentence, too.
_SENTENCE = re.compile(
    r"(?<=[.!?…])\s+(?=[^\sa-z])|(?<=[a-z\d)]{2}[.!?])\s+(?=[a-z])|(?<=[。！？])"
)
_ABBREVIATIONS: Final = ("Mr.", "Mrs.", "Ms.", "Dr.", "St.", "No.", "vs.", "Prof.", "e.g.", "i.e.")
_BREAKS = re.compile(r"[\s,;:{}()\[\]<>|]")
_LIST_MARK = re.compile(r"\W{0,3}\d{1,3}\.")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[A-Za-z']+")


def clean(text: str) -> str:
    """`text` without what could forge a line, break the tokenizer or bury the rest in base64."""
    if len(text) < _LEAST_RUN and text.isprintable() and ";base64," not in text:
        return text
    if ";base64," in text:
        text = _DATA_URL.sub(lambda url: f"[{url[1]}]", text)
    text = _SURROGATE.sub("\ufffd", _UNPRINTABLE.sub(" ", text.replace("\r", "\n")))
    return _RUN.sub(_shorten, text)


def _shorten(run: re.Match[str]) -> str:
    return f"{run[0][:64]}…({len(run[0])} characters)"


def one_line(text: str) -> str:
    """`text` cleaned, with every run of white space turned into one space."""
    return " ".join(clean(text).split())


def sentences(text: str) -> tuple[str, ...]:
    """The sentences and lines of `text`, each one line, hardly longer than `UNIT_CHARS`.

    Of a text with more than `MOST_UNITS`, short ones that follow each other are one: all is read,
    and the time that takes is bounded.
    """
    if len(text) <= _SHORT:
        return _remembered(text)
    found = tuple(_sentences(text))
    return found if len(found) <= MOST_UNITS else tuple(_together(found))


def _together(pieces: Sequence[str]) -> Iterator[str]:
    least = min(sum(map(len, pieces)) // MOST_UNITS + 1, UNIT_CHARS)
    held: list[str] = []
    chars = 0
    for piece in pieces:
        if held and (chars >= least or chars + len(piece) >= UNIT_CHARS):
            yield " ".join(held)
            held, chars = [], 0
        held.append(piece)
        chars += len(piece) + 1
    yield " ".join(held)


def _sentences(text: str) -> Iterator[str]:
    for row in clean(text).split("\n"):
        for sentence in _bound(_SENTENCE.split(" ".join(row.split()))):
            yield from capped(sentence)


_SHORT: Final = 4_000
_remembered = lru_cache(maxsize=1 << 13)(lambda text: tuple(_sentences(text)))
"""A turn is read when it is in the tail, and again when it is covered: as many as the tails of
some hundred sessions hold, because their compactions come in turn."""


def _bound(pieces: list[str]) -> Iterator[str]:
    """Joins a sentence to what it cannot be read without: an abbreviation's rest, a retraction."""
    held: list[str] = []
    chars = 0
    for piece in filter(None, map(str.strip, pieces)):
        if held and not (_is_wordless(piece) or (chars < UNIT_CHARS and _belongs(piece, held))):
            yield " ".join(held)
            held, chars = [], 0
        held.append(piece)
        chars += len(piece) + 1
    if held:
        yield " ".join(held)


def _is_wordless(piece: str) -> bool:
    """Whether it says nothing without the sentence before it: numbers and signs."""
    return not (_LETTER.search(piece) or _LIST_MARK.fullmatch(piece))


def _belongs(piece: str, before: Sequence[str]) -> bool:
    if len(before) == 1 and _LIST_MARK.fullmatch(before[0]):
        return True
    first = _WORD.match(piece)
    if first and first[0].lower() in RETRACTIONS:
        return True
    last = before[-1]
    shortened = is_abbreviated(last) if piece[:1].islower() else last.endswith(_ABBREVIATIONS)
    return shortened or is_ordinal(last, piece)


def capped(text: str) -> Iterable[str]:
    """`text` in pieces of some `UNIT_CHARS`, cut at white space or punctuation if it can be."""
    if len(text) > UNIT_CHARS:
        return _cut(text)
    whole = text.strip()
    return (whole,) if whole else ()


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > UNIT_CHARS:
        breaks = [m.end() for m in _BREAKS.finditer(text, start + 200, start + UNIT_CHARS)]
        end = breaks[-1] if breaks else start + UNIT_CHARS
        if len(text) - end <= _LOOSE_END and _is_wordless(text[end:]):
            end = len(text)
        if piece := text[start:end].strip():
            yield piece
        start = end
    if rest := text[start:].strip():
        yield rest


def is_guarded(words: Sequence[str]) -> bool:
    """Whether a negation, condition or exception is among these lower-case words."""
    return not GUARDS.isdisjoint(words) or "n't" in " ".join(words)
