"""Which pieces of a message are its writer's own words, and which are quoted or pasted.

Most of it can be seen: fences, tags, quotation marks, code, logs. That a line ending in a colon
hands over what somebody else wrote ("The landlord's mail:") and not what the writer wants ("My
rules:") is what a small linear model knows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice
from typing import Final

from turnmill_worker.reading.linear import grams, weights

MODEL: Final = "leads.bin"
BITS: Final = 13
MASK: Final = (1 << BITS) - 1
UNIT: Final = 0.02
"""What one step of a weight adds to the log-odds."""

LEAST, LEAST_WITHIN_A_LINE = 0.0, 2.0
"""Log-odds from which on a colon hands over the lines behind it, and the sentence beside it."""

_WORD = re.compile(
    r"(?<![^\s\"'“‘(\[*_¿¡])[^\W\d_]+(?:[-'’][^\W\d_]+)*(?![^\s\"'”’)\]*_.,;:!?…。，：；！？、」])"
)
_CODE = re.compile(r"[{}=<>|\\]|\w\(|::|--\w|^\W*(?:\d+[:|]|\$ )")
_LOGGED = re.compile(
    r"[^\w\s]?(?:[A-Z]{3,8}\W{1,3})?\d{2,4}(?:[-/.:]\d\d){1,2}\b|\W?[A-Z]{4,8}\W{1,3}\d"
)
_OF_WORDS, _TO_A_MARK = 0.6, 40
_COMMENT = re.compile(r"#|//|/?\*|--|;")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
_QUOTED = re.compile(
    r'"[^"\n]{1,400}"|“[^“”\n]{1,400}”|«[^«»\n]{1,400}»|„[^„“”\n]{1,400}[“”]'
    r"|「[^「」\n]{1,400}」|『[^『』\n]{1,400}』|^[ \t]*>[^\n]*"
    r'|^[ \t]*(?:"[^"]{1,8000}"|“[^“”]{1,8000}”)[.,;]?[ \t]*$',
    re.MULTILINE,
)
_COLON = re.compile(r"[:：][ \t]*(?=\n)|:[ \t]+(?=\S)|：(?=\S)")
_UNSPACED: Final = "\u3040"
_LEAD = re.compile(r"[^\s:：]+")
_LONGEST_LEAD, _WORDS_OF_A_LEAD, _MOST_COLONS = 80, 12, 400
_SENTENCE = re.compile(r"[^\n.!?。！？]+[.!?。！？]?")
_LINE = re.compile(r"[^\n]*\n?")
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.):])\s")
_ENDS: Final = frozenset(".!?。！？…")
_MARKS: Final = frozenset('"“«„「『<>`~')
_WRAPS: Final = 0.8
"""The share of a message from which on a tag is around the message, not around a quotation."""


def is_talk(text: str) -> bool:
    """Whether a line is somebody's sentence, not code or output."""
    if not text or text[-1] == ";" or text[0] + text[-1] == "[]" or _LOGGED.match(text):
        return False
    if text[-1] in _ENDS - {"."}:
        return True
    text = _LISTED.sub("", text, count=1)
    if len(_WORD.findall(text)) < _OF_WORDS * (text.count(" ") + 1):
        return False
    return len(_CODE.findall(text)) * _TO_A_MARK <= len(text)


def own(pieces: Sequence[str], text: str) -> list[bool]:
    """Of each piece of a message, whether it is its writer's own.

    ``pieces``: all of the text in order, with spaces changed at most, as `sentences` gives them.
    """
    quoted = bytearray(len(text))
    for start, end in _quotations(text):
        quoted[start:end] = b"\1" * (end - start)
    # Pieces are found again by their characters but for spaces.
    marks = bytes(compress(quoted, (not mark.isspace() for mark in text))) if any(quoted) else b""
    talks = [is_talk(_TAG.sub("", piece).strip()) for piece in pieces]
    found, at = [], 0
    for number, piece in enumerate(pieces):
        start, at = at, at + len("".join(piece.split()))
        # Comments read like talk, but for the code around them.
        around = talks[max(number - 1, 0) : number + 2]
        comments = sum(around) == 1 < len(around) and _COMMENT.match(piece)
        others = 2 * sum(marks[start:at]) > at - start
        found.append(talks[number] and not others and not comments)
    return found


def hands_over(lead: str) -> float:
    """The log-odds that what stands behind a colon was written by somebody else."""
    table = weights(MODEL)
    return UNIT * (table[MASK + 1] + sum(table[each] for each in lead_buckets(lead)))


def lead_buckets(lead: str) -> set[int]:
    """The features of what stands before a colon."""
    words = _LEAD.findall(lead.lower())[-_WORDS_OF_A_LEAD:]
    # Where there are no spaces, a word is a sentence.
    tokens = chain.from_iterable((word, *word) if word >= _UNSPACED else (word,) for word in words)
    return {each & MASK for each in grams(list(tokens))}


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    if "```" in text or "~~~" in text:
        fences = [found.start() for found in _FENCE.finditer(text)]
        yield from zip(fences[::2], [*fences[1::2], len(text)], strict=False)
    if "</" in text:
        yield from _tagged(text)
    yield from (found.span() for found in _QUOTED.finditer(text))
    yield from _handed_over(text)


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    """What stands between an opening tag and the next closing one of its name."""
    closing: dict[str, list[int]] = {}
    tags = list(_TAG.finditer(text))
    for tag in tags:
        if tag[1]:
            closing.setdefault(tag[2], []).append(tag.end())
    done = 0
    for tag in tags:
        ends = closing.get(tag[2], [])
        at = bisect_right(ends, tag.end())
        if tag[1] or tag.start() < done or at == len(ends):
            continue
        if ends[at] - tag.start() < _WRAPS * len(text):
            done = ends[at]
            yield tag.start(), done


def _handed_over(text: str) -> Iterator[tuple[int, int]]:
    """What stands behind colons that hand it over."""
    done = 0
    for colon in islice(_COLON.finditer(text), _MOST_COLONS):
        if colon.start() < done:
            continue
        first = max(done, colon.start() - _LONGEST_LEAD)
        lead = text[max(text.rfind("\n", first, colon.start()) + 1, first) : colon.start()]
        ends_line = text.startswith("\n", colon.end())
        if hands_over(lead) >= (LEAST if ends_line else LEAST_WITHIN_A_LINE):
            end = _SENTENCE.match(text, colon.end())
            done = _end_of_block(text, colon.end() + 1) if ends_line or not end else end.end()
            yield colon.end(), done


def _end_of_block(text: str, start: int) -> int:
    """Where lines end that were handed over: with their list, data, paragraph or letter."""
    first = ""
    for line in _LINE.finditer(text, start):
        said = line[0].strip()
        if not first:
            # What is marked as quoted ends where its marks say.
            if said[:1] in _MARKS:
                return start
            if said.endswith((",", "，", "、")):
                return len(text)
            first = said
        elif _LISTED.match(first):
            if not _LISTED.match(line[0]):
                return line.start()
        elif not said or (said[-1] in _ENDS and is_talk(said) and not is_talk(first)):
            return line.start()
    return len(text)
