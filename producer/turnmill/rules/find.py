"""Finds what a user lays down for the rest of a conversation, in the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from turnmill.rules.clauses import Span, clauses, lowered, sentences
from turnmill.rules.declared import Declared, declared
from turnmill.rules.kinds import Clause, Kind
from turnmill.rules.once import is_one_act
from turnmill.rules.orders import may_follow, may_open, may_order, opening, ordered
from turnmill.rules.quoted import own_words
from turnmill.rules.statements import Pattern, hinted, refused, stated
from turnmill.rules.wording.english import MEANT, PAST
from turnmill.rules.wording.foreign import FOREIGN, FOREIGN_REFUSED, FOREIGN_WORDS
from turnmill.rules.wording.lasting import FOLLOWS, PREMISE
from turnmill.rules.wording.lexicon import words

__all__ = ["Clause", "Kind", "find_rules"]

_ASKS = re.compile(
    r"\b(?:can|could|would|will) you\b|^(?:(?:[a-z]+,|and|but|so|or|then|hi|hey|hello|ok|okay"
    r"|please|also"
    r"|well|oh|now) )*(?:can|could|would|will|do|does|did|is|are|should|shall|may) (?:you|i|we|it"
    r"|there|he|she|they|the|this|that|my)\b"
    r"|^(?:and |but |so |or |then |hmm,? |ok,? )*(?:how|what|why|where|who|whose"
    r"|which|when (?:is|are|do|does|can|will|should)|does|do(?! not)|is|are|can"
    r"|could|would)\b"
)
_ASKS_ALWAYS = re.compile(
    r"\b(?:can|could|would|will) you (?:please |kindly |just |also )?(?:always"
    r"|never|from now on|not ever|only)\b"
    r"|\b(?:can|could|would|will) you\b.{0,120}\b(?:from now on|going forward|in"
    r" future|every time|each time)\b"
)
_TAGGED = re.compile(r",? (?:ok|okay|alright|all right|right|please|yeah|deal)\s?\?$")
_SLOPPY = re.compile(rf"\b(?:{'|'.join(MEANT)})\b")
_SLOPPY_WORDS: Final = frozenset(MEANT)
_LEANS = re.compile(r"\b(?:it|them|that|this|those|ones)\b")
_THEIRS = re.compile(r"\b(?:their|its)\b")
_SOMEBODY = re.compile(
    r"\b(?:people|they|users?|customers?|kids|children|parents|guests|anyone|everyone)\b"
)
_MEANT: Final = re.compile(r"\bprefer\w*\b|\brather\b")
_ONES = re.compile(r"\bones?\b(?=[,.;!]|$| (?:please|so|because|since|whenever|when|if)\b)")
_STRESSED = re.compile(r"(?:(?:with|absolutely) )?no exceptions?[.!]*|without exceptions?[.!]*")
_APART: Final = 2
_COLON: Final = 60
_SHORT: Final = 240
# What a rule replaces belongs to it: "never tell 5521; the old code no longer works".
_OLD_GONE = re.compile(r"(?:and )?(?:the|my|our) (?:old|previous|former) ")
_THEY = re.compile(r"(?:and |but |so )*(?:he|she|they)(?:'s|'re)? ")
_SO = re.compile(r"[\s,;]*(?:so|therefore|hence|thus)\b")
_NAMED = re.compile(
    r"\b(?:I'm|I am) ([A-Z][a-zà-ÿ]+)(?: [A-Z][\w'-]+)?(?=[,.;!]| and\b| from\b| here\b|$)"
)
_GREETING: Final = 16
_EARLY: Final = 12
_NEXT: Final = 4
"""In characters: where a name, a question, or what is preferred must stand."""

_SHORTEST: Final = 5
"""In characters: a sentence of fewer lays nothing down."""

_NO_NAMES: Final = words(
    "Sorry Not Sure Just Very So Happy Glad Really Trying Looking Fine Good Ok Okay Great"
)


def find_rules(text: str) -> list[Clause]:
    """The rules in what a user says, in order, each exactly as it stands in `text`.

    No two overlap; linear in the length of `text`.
    """
    own = own_words(text)
    low = lowered(own)
    message = _Message(text, own, low, low.translate(_SPACED))
    found: list[Clause] = []
    before = None
    done = 0
    colons = ":" in low
    for sentence in sentences(own):
        if colons and sentence.start >= done and (called := declared(low, sentence.start)):
            done = called.span.end
            _add(found, text, called.span, _kind_of(message, called))
        elif sentence.start >= done and sentence.end - sentence.start > _SHORTEST:
            hints = _hints(message, sentence)
            if any(hints._replace(sloppy=False)):  # sloppy spelling alone is nothing
                for span, kind in _in_sentence(message, sentence, before, hints):
                    _add(found, text, span, kind)
        before = sentence
    return found


def _add(found: list[Clause], text: str, span: Span, kind: Kind) -> None:
    """Adds a rule, or makes the last one longer where the two overlap."""
    start, end = span
    if found and start < found[-1].end:
        _, start, _, kind = found.pop()
    found.append(Clause(text[start:end], start, end, kind))


def _hints(message: _Message, sentence: Span) -> _Hints:
    words = set(message.spaced[sentence.start : sentence.end].split())
    sloppy = not words.isdisjoint(_SLOPPY_WORDS)
    if sloppy:
        words |= {MEANT.get(word, word) for word in words}
    if _DIGIT.search(message.low, *sentence):
        words.add("#")
    if message.low.find(": ", *sentence) > 0:
        words.add(":")
    told = message.low.endswith("?", *sentence) or not words.isdisjoint(PAST)
    return _Hints(
        hinted(words, told=told),
        may_order(words) or (not told and may_open(words, message.low, sentence)),
        not words.isdisjoint(FOREIGN_WORDS),
        not words.isdisjoint(_I_AM) and bool(_NAMED.search(message.own, *sentence)),
        sloppy,
    )


class _Message(NamedTuple):
    """A message, what of it is the user's own, and that in lower case: character for character."""

    text: str
    own: str
    low: str
    spaced: str


def _in_sentence(
    message: _Message, sentence: Span, before: Span | None, hints: _Hints
) -> Iterator[tuple[Span, Kind]]:
    spans = clauses(message.low, sentence)
    for at, span in enumerate(spans):
        kind = _kind(message, span, hints)
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


def _kind_of(message: _Message, called: Declared) -> Kind:
    """The kind of what is called a rule: by its words, else by what it is called."""
    hints = _hints(message, called.span)
    kinds = (_kind(message, span, hints) for span in clauses(message.low, called.span))
    return next(filter(None, kinds), called.kind)


def _is_answered(low: str, before: Span, span: Span) -> bool:
    """Whether the sentence before says what this one's "ones" are, or what it only stresses."""
    near = span.start - before.end <= _APART and before.end - before.start <= _SHORT
    leans = _ONES.search(low, *span) or _STRESSED.fullmatch(low, *span)
    return near and bool(leans)


class _Hints(NamedTuple):
    """What the words of a sentence allow to be found in its clauses."""

    patterns: list[Pattern]
    orders: bool
    foreign: bool
    named: bool
    sloppy: bool


def _kind(message: _Message, span: Span, hints: _Hints) -> Kind | None:
    clause = message.low[span.start : span.end]
    if hints.sloppy:
        clause = _SLOPPY.sub(lambda word: MEANT[word[0]], clause)
    if clause[-1:] == "?":
        clause = _TAGGED.sub("", clause)
    led = opening(clause) if hints.patterns else 0
    colon = clause.find(": ", 0, _COLON) + 2 if hints.patterns else 0
    kind = (
        (_named(message.own, span) if hints.named else None)
        or stated(clause, hints.patterns)
        or (stated(clause[led:], hints.patterns) if led else None)
        or (stated(clause[colon:], hints.patterns) if colon > 1 else None)
        or (ordered(clause) if hints.orders else None)
        or (_foreign(clause) if hints.foreign else None)
    )
    if kind is None:
        standing = hints.orders and " you " in clause and _ASKS_ALWAYS.search(clause)
        return Kind.COMMAND if standing else None
    if _asks(clause):
        return Kind.COMMAND if _ASKS_ALWAYS.search(clause) else None
    return None if refused(clause) or is_one_act(kind, clause) else kind


def _named(own: str, span: Span) -> Kind | None:
    named = _NAMED.search(own, *span)
    near = named is not None and named.start() - span.start < _GREETING
    return Kind.IDENTITY if named and near and named[1] not in _NO_NAMES else None


def _asks(clause: str) -> bool:
    asking = _ASKS.search(clause)
    return clause.endswith("?") or bool(asking and asking.start() < _EARLY)


def _needs_before(low: str, before: Span, span: Span) -> bool:
    """Whether a clause cannot be read, or is not whole, without the one before it."""
    if _asks(low[before.start : before.end]):
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


def _foreign(clause: str) -> Kind | None:
    for kind, pattern in _FOREIGN:
        if pattern.search(clause):
            return None if _FOREIGN_REFUSED.search(clause) else kind
    return None


_FOREIGN: Final = [(kind, re.compile(pattern)) for kind, pattern in FOREIGN]
_FOREIGN_REFUSED: Final = re.compile(FOREIGN_REFUSED)
_SPACED: Final = {ord(mark): " " for mark in ',.;:!?()[]{}<>/\\|"*_-–—…“”„«»¿¡#`~+='}
_DIGIT: Final = re.compile(r"\d")
_I_AM: Final = frozenset(("i'm", "am"))
