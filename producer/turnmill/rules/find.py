"""Finds what a user lays down for the rest of a conversation, in the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from turnmill.rules.clauses import Span, clauses, lowered, sentences
from turnmill.rules.declared import Declared, declared
from turnmill.rules.kinds import Clause, Kind
from turnmill.rules.laid_down import Message, Sentence, asks, laid_down
from turnmill.rules.orders import may_follow
from turnmill.rules.quoted import own_words
from turnmill.rules.wording.lasting import FOLLOWS, PREMISE

__all__ = ["Clause", "Kind", "find_rules"]

_LEANS = re.compile(r"\b(?:it|them|that|this|those|ones)\b")
_THEIRS = re.compile(r"\b(?:their|its)\b")
_SOMEBODY = re.compile(
    r"\b(?:people|they|users?|customers?|kids|children|parents|guests|anyone|everyone)\b"
)
_MEANT: Final = re.compile(r"\bprefer\w*\b|\brather\b")
_ONES = re.compile(r"\bones?\b(?=[,.;!]|$| (?:please|so|because|since|whenever|when|if)\b)")
_STRESSED = re.compile(r"(?:(?:with|absolutely) )?no exceptions?[.!]*|without exceptions?[.!]*")
_APART: Final = 2
_SHORT: Final = 240
# What a rule replaces belongs to it: "never tell 5521; the old code no longer works".
_OLD_GONE = re.compile(r"(?:and )?(?:the|my|our) (?:old|previous|former) ")
_THEY = re.compile(r"(?:and |but |so )*(?:he|she|they)(?:'s|'re)? ")
_SO = re.compile(r"[\s,;]*(?:so|therefore|hence|thus)\b")
_NEXT: Final = 4
"""In characters: how near what is leant on stands to what is preferred."""

_SHORTEST: Final = 5
"""In characters: a sentence of no more lays nothing down."""

_SHORTEST_BESIDE: Final = 2
"""The same in a message with other characters than ASCII: some scripts need two for a word."""


def find_rules(text: str) -> list[Clause]:
    """The rules in what a user says, in order, each exactly as it stands in `text`.

    No two overlap; linear in the length of `text`.
    """
    own = own_words(text)
    low = lowered(own)
    message = Message(text, own, low, low.translate(_SPACED))
    found: list[Clause] = []
    before = None
    done = 0
    colons = ":" in low
    shortest = _SHORTEST if low.isascii() else _SHORTEST_BESIDE
    for sentence in sentences(own):
        if colons and sentence.start >= done and (called := declared(low, sentence.start)):
            done = called.span.end
            _add(found, text, called.span, _kind_of(message, called))
        elif sentence.start >= done and sentence.end - sentence.start > shortest:
            for span, kind in _in_sentence(message, sentence, before):
                _add(found, text, span, kind)
        before = sentence
    return found


def _add(found: list[Clause], text: str, span: Span, kind: Kind) -> None:
    """Adds a rule, or makes the last one longer where the two overlap."""
    start, end = span
    if found and start < found[-1].end:
        _, start, _, kind = found.pop()
    found.append(Clause(text[start:end], start, end, kind))


def _in_sentence(
    message: Message, sentence: Span, before: Span | None
) -> Iterator[tuple[Span, Kind]]:
    said = Sentence(message, sentence)
    spans = clauses(message.low, sentence)
    for at, span in enumerate(spans):
        kind = laid_down(said, span)
        if at and _THEY.match(message.low, *spans[at - 1]):
            kind = None
        elif kind is None and at and _follows(message.low, spans[at - 1], span):
            kind = Kind.COMMAND
        if kind is None:
            continue
        start, end = span
        if at and _needs_before(message.low, spans[at - 1], span):
            start = spans[at - 1].start
        elif not at and before and _is_answered(message.low, before, span):
            start = before.start
        if at + 1 < len(spans) and _OLD_GONE.match(message.low, *spans[at + 1]):
            end = spans[at + 1].end
        yield Span(start, end), kind


def _kind_of(message: Message, called: Declared) -> Kind:
    """The kind of what is called a rule: by its words, else by what it is called."""
    said = Sentence(message, called.span)
    kinds = (laid_down(said, span) for span in clauses(message.low, called.span))
    return next(filter(None, kinds), called.kind)


def _is_answered(low: str, before: Span, span: Span) -> bool:
    """Whether the sentence before says what this one's "ones" are, or what it only stresses."""
    near = span.start - before.end <= _APART and before.end - before.start <= _SHORT
    leans = _ONES.search(low, *span) or _STRESSED.fullmatch(low, *span)
    return near and bool(leans)


def _needs_before(low: str, before: Span, span: Span) -> bool:
    """Whether a clause cannot be read, or is not whole, without the one before it."""
    if asks(low[before.start : before.end]):
        return False
    if _SO.match(low, before.end, span.end):
        return True
    clause = low[span.start : span.end]
    if _THEIRS.search(clause) and not _SOMEBODY.search(clause):
        return True
    meant = _MEANT.search(clause)
    leans = _LEANS.search(clause)
    return bool(leans and (not meant or leans.start() - meant.end() < _NEXT))


def _follows(low: str, before: Span, span: Span) -> bool:
    """Whether a clause draws from a premise what is to be done: "I'm deaf, so write it down"."""
    return bool(
        _SO.match(low, before.end, span.end)
        and PREMISE.fullmatch(low, *before)
        and (FOLLOWS.match(low, *span) or may_follow(low[span.start : span.end]))
    )


_SPACED: Final = {ord(mark): " " for mark in ',.;:!?()[]{}<>/\\|"*_-–—…“”„«»¿¡#`~+='}
