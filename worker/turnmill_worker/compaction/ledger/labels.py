"""What a value in a sentence is called by: the words it stands with, as they were said."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from turnmill.rules.wording.english import STOP

__all__ = ["VALUE_AT", "labelled", "said_of"]

VALUE_AT: Final = "…"
"""Stands in a label where the value stood among its words."""

_WORDS: Final = 4
"""Words that say something, of which a value keeps so many at most: fewer, and nobody knows what it
is; more, and prose is cheaper."""

_ENOUGH: Final = 2
"""With so many before it, a value needs none of those behind it."""

_LONGEST: Final = 80
_WORD = re.compile(r"[^\W_][\w'’-]*")
_BREAK = re.compile(r"[,;:.!?()\[\]|—](?=\s|$|[*_`\"”'])|\s[-–]\s|[()\[\]|—]")
_ENDS = re.compile(rf"{_BREAK.pattern}|\b(?:and|or|but|which|who|so|while)\b")
_JOINS = re.compile(r"[^\w.;:]*(?:(?:and|or)[^\w.;:]+)?")
_MARKS = re.compile(r"[*`\"“”#…]+|(?<!\w)_+|_+(?!\w)")
_EDGES: Final = " \t,;:.!?()[]|—-–=*_`\"'“”’#…"

Span = tuple[int, int]


def labelled(text: str, values: Sequence[Span]) -> Iterator[tuple[str, int]]:
    """For the value at each span, its label, and how many words of it say something.

    The label is the part of a clause before it or, where that says little, what is behind it, too.
    Values that follow each other in a list share one.
    """
    own = _content_words(text, values)
    at = 0
    while at < len(values):
        last = at
        while last + 1 < len(values) and _JOINS.fullmatch(
            text, values[last][1], values[last + 1][0]
        ):
            last += 1
        before = values[at - 1][1] if at else 0
        after = values[last + 1][0] if last + 1 < len(values) else len(text)
        found = _label(text, own, (before, values[at][0]), (values[last][1], after))
        for _ in range(at, last + 1):
            yield found
        at = last + 1


@lru_cache(maxsize=1 << 12)
def said_of(label: str) -> str:
    """A label without plain words: what was said of a value in other words has the same."""
    return " ".join(word for word in _WORD.findall(label) if word.lower() not in STOP) or label


def _content_words(text: str, values: Sequence[Span]) -> list[Span]:
    """The words that say something and are not values themselves."""
    spans = iter([*values, (len(text) + 1, 0)])
    start, end = next(spans)
    words = []
    for match in _WORD.finditer(text):
        while match.start() >= end and end:
            start, end = next(spans)
        if match.end() <= start and match[0].lower() not in STOP:
            words.append(match.span())
    return words


def _between(words: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    return words[bisect_left(words, (start, 0)) : bisect_left(words, (end, 0))]


def _label(text: str, words: Sequence[Span], ahead: Span, behind: Span) -> tuple[str, int]:
    left = _between(words, _clause(text, ahead), ahead[1])[-_WORDS:]
    end = _ENDS.search(text, *behind)
    right = _between(words, behind[0], end.start() if end else behind[1])
    right = right[: _WORDS - len(left)] if len(left) < _ENOUGH else []
    if not left and not right:
        # It stands alone between commas: what was said last before it tells what it is.
        until = bisect_left(words, (ahead[1], 0))
        left = words[max(until - _WORDS, 0) : until]
        return _cut(" ".join(text[start:end] for start, end in left)), len(left)
    said = _plain(text[left[0][0] : ahead[1]]) if left else ""
    if right:
        said = f"{said} {VALUE_AT} {_plain(text[behind[0] : right[-1][1]])}".strip()
    return _cut(said), len(left) + len(right)


def _clause(text: str, ahead: Span) -> int:
    """Where the clause begins that a value ends; marks right before it end none."""
    end = len(text[: ahead[1]].rstrip(_EDGES))
    breaks = [mark.end() for mark in _BREAK.finditer(text, ahead[0], max(end, ahead[0]))]
    return breaks[-1] if breaks else ahead[0]


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split()).strip(_EDGES)


def _cut(text: str) -> str:
    """The end of a label that is too long, from a whole word on."""
    if len(text) <= _LONGEST:
        return text
    at = text.find(" ", len(text) - _LONGEST)
    return text[at + 1 :] if at >= 0 else text[-_LONGEST:]
