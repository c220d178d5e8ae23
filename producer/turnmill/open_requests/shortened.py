"""A request that is too long: its demands, names and criteria before what it quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from turnmill.open_requests.quotations import quotations

__all__ = ["shortened"]

_MARK_TOKENS: Final = 10
"""What a mark for left-out lines costs, generously."""

_LONG_LINE: Final = 300
"""Characters from which on a line is taken by its sentences."""

_LOOKED_AT: Final = 400
"""Characters of a piece that tell what it is worth."""

_LINES_TOGETHER: Final = 20
"""Lines of a quotation that are kept or left out together."""

_SENTENCE = re.compile(r"(?<=[.!?…])(?<!\d\.)\s+(?=[^\sa-z])|(?<=[。！？])")
_MARK = re.compile(r"\s*\[… (\d{1,9}) lines? left out\]\s*")
_DEMAND = re.compile(
    r"\b(?:must|should|shall|need(?:s|ed)?|ensure|make sure|do not|don't|never|always|only|please"
    r"|required?|requirements?|expect(?:s|ed)?|wants?|fix|implement|add|remove|change|replace"
    r"|support|returns?|instead|so that|until|at (?:most|least)|without|except|unless|task|goal"
    r"|muss|soll(?:te)?|nicht|bitte|doit|devez|debe|deve|moet)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"`[^`\n]{1,80}`|\w[/_]\w|\w\(\)|[a-z][A-Z]|\w\.[A-Za-z]{1,5}\b|\d")

_ENDS: Final = 2.0
_DEMANDED: Final = 2.0
_NAMED: Final = 1.0
_OWN: Final = 2.0


class _Piece(NamedTuple):
    """What is kept or left out as a whole: some lines, or a sentence of one.

    Attributes:
        line: the first line's number.
        lines: how many there are.
        part: which sentence of the line it is, from 0.
        parts: how many sentences that line has.
    """

    text: str
    line: int
    lines: int
    part: int
    parts: int
    worth: float


def shortened(
    text: str, tokens: int, count: Callable[[str], int], *, own_words: bool = False
) -> str:
    """The text, or as much of it as fits ``tokens``: whole lines and sentences, and marks.

    With ``own_words``, it is shortened to what is not quoted, in any case. A text without lines or
    sentences that fit keeps its beginning. Linear in its length, apart from counting.
    """
    fits = len(text) <= tokens * _CHARS_PER_TOKEN and count(text) <= tokens
    if fits and not own_words:
        return text
    pieces = list(_pieces(text))
    order = [at for at, piece in enumerate(pieces) if piece.worth > 0 or not own_words]
    order.sort(key=lambda at: (-pieces[at].worth, at))
    chosen: list[int] = []
    left = tokens
    for at in order:
        piece = pieces[at]
        cost = count(piece.text) + 1 if len(piece.text) <= left * _CHARS_PER_TOKEN else left + 1
        # A piece apart from those kept so far may need a mark.
        if cost + _MARK_TOKENS <= left:
            left -= cost
            chosen.append(at)
    low, high = 0, len(chosen)
    while low < high:
        # All of them fit as a rule: their costs were added up.
        middle = high if high == len(chosen) else (low + high + 1) // 2
        fits = count(_rendered(pieces, chosen[:middle])) <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return _rendered(pieces, chosen[:low]) if low else _beginning(text, tokens, count)


def _beginning(text: str, tokens: int, count: Callable[[str], int]) -> str:
    start = text[: max(tokens - _MARK_TOKENS, 0)]
    begun = f"{start} [… {len(text) - len(start)} characters left out]"
    return begun if start and count(begun) <= tokens else ""


_CHARS_PER_TOKEN: Final = 16
"""More characters per token than any text has: past it, counting only wastes time."""


def _pieces(text: str) -> Iterator[_Piece]:
    lines = text.split("\n")
    quoted = quotations(lines)
    own = [at for at, line in enumerate(lines) if line.strip() and not quoted[at]]
    ends = {*own[:2], *own[-2:]}
    for is_quoted, group in groupby(range(len(lines)), key=lambda at: quoted[at]):
        places = list(group)
        if is_quoted:
            for start in range(0, len(places), _LINES_TOGETHER):
                some = places[start : start + _LINES_TOGETHER]
                whole = "\n".join(lines[at] for at in some)
                yield _Piece(whole, some[0], len(some), 0, 1, 0.0)
            continue
        for at in places:
            if not lines[at] and at and not lines[at - 1]:
                continue
            parts = _SENTENCE.split(lines[at]) if len(lines[at]) > _LONG_LINE else [lines[at]]
            for number, part in enumerate(parts):
                worth = _worth(part) + (_ENDS if at in ends else 0.0)
                yield _Piece(part, at, 1, number, len(parts), worth)


def _worth(text: str) -> float:
    if not text or text.isspace() or _MARK.fullmatch(text[:_LOOKED_AT]):
        return -1.0
    text = text[:_LOOKED_AT]
    return _OWN + _DEMANDED * bool(_DEMAND.search(text)) + _NAMED * bool(_NAME.search(text))


def _rendered(pieces: Sequence[_Piece], chosen: Sequence[int]) -> str:
    """The chosen pieces in their order, with a mark for each run of lines left out."""
    kept = set(chosen)
    rows: list[str] = []
    lost = 0
    for _, group in groupby(range(len(pieces)), key=lambda at: pieces[at].line):
        places = list(group)
        row = _row(pieces, places, kept)
        if row is None:
            lost += sum(_lines(pieces[at]) for at in places[:1])
            continue
        if lost:
            rows.append(_mark(lost))
            lost = 0
        rows.append(row)
    return "\n".join([*rows, _mark(lost)] if lost else rows)


def _row(pieces: Sequence[_Piece], places: Sequence[int], kept: set[int]) -> str | None:
    """The kept sentences of a line, or None."""
    texts: list[str] = []
    for at in places:
        if at in kept:
            texts.append(pieces[at].text)
        elif not texts or texts[-1] != "[…]":
            texts.append("[…]")
    return None if texts == ["[…]"] else " ".join(texts)


def _lines(piece: _Piece) -> int:
    """How many lines of the user's are lost with it."""
    if mark := _MARK.fullmatch(piece.text):
        return int(mark[1])
    return sum(bool(line.strip()) for line in piece.text.split("\n"))


def _mark(lost: int) -> str:
    return f"[… {lost} line{'s' if lost != 1 else ''} left out]"
