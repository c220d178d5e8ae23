"""What a clause lays down that lasts: by patterns, and by how much it sounds like a rule."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final, NamedTuple

from turnmill.rules.clauses import Span
from turnmill.rules.kinds import Kind
from turnmill.rules.once import is_one_act
from turnmill.rules.orders import may_open, may_order, opening, ordered
from turnmill.rules.scored import score
from turnmill.rules.statements import Pattern, hinted, refused, stated
from turnmill.rules.wording.english import MEANT, PAST
from turnmill.rules.wording.illness import HARMFUL, OF_OURS
from turnmill.rules.wording.lexicon import words

__all__ = ["Message", "Sentence", "asks", "laid_down"]

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
_NAMED = re.compile(
    r"\b(?:I'm|I am) ([A-Z][a-zà-ÿ]+)(?: [A-Z][\w'-]+)?(?=[,.;!]| and\b| from\b| here\b|$)"
)
_GREETING: Final = 16
_EARLY: Final = 12
_COLON: Final = 60
"""In characters: where a name, a question, or what leads up to a rule must stand."""

_NO_NAMES: Final = words(
    "Sorry Not Sure Just Very So Happy Glad Really Trying Looking Fine Good Ok Okay Great"
)
_DIGIT: Final = re.compile(r"\d")
_MAY_STILL = re.compile(r"\d|\b(?:always|never|from now on|whenever|every|each)\b")
_I_AM: Final = frozenset(("i'm", "am"))
_SOUNDS: Final = (
    (Kind.PROHIBITION, re.compile(r"^(?:please |but |and |so )*(?:no|not|never|nothing|don'?t)\b")),
    (Kind.IDENTITY, re.compile(r"^(?:and |but |so )*(?:i'?m|i am|i'?ve|i have|we'?re|my name)\b")),
    (Kind.PREFERENCE, re.compile(r"\b(?:i|we|i'd|i would|we'd) (?:\w+ )?(?:prefer|like|love)\b")),
)

_QUESTION_ENDS: Final = ("?", "\uff1f", "か", "か。", "吗", "吗。", "嗎", "嗎。", "呢", "呢。")

_SAYS_MUCH: Final = 3
"""Spaces in a part of a clause that can be a rule by itself."""

_FEW: Final = 3
"""Words; and times that each word of a filler is said, on average."""

_ONLY_NO: Final = re.compile(r"(?:\W*\b(?:no+|nope|nah|not|never|yes|yeah|ok)\b)+\W*")
"""An answer, however firm, and no rule."""

_SURE: Final = 0.7
"""Log-odds from which a clause is a rule without a pattern: two in three."""

_HARMS: Final = -1.0
_HARMS_US: Final = -1.5
"""The same for what does harm when it is forgotten, and if that is the user's own."""

_IN_DOUBT: Final = -1.5
"""From here on the parts of a clause are asked, too."""

_UNLIKELY: Final = -2.5
"""Below this a clause is no rule, as most that people write, and no pattern is tried on it.

But a number may be the new value of a rule, and "always" means what it says.
"""


class Message(NamedTuple):
    """A message, what of it is the user's own, and that in lower case: character for character."""

    text: str
    own: str
    low: str
    spaced: str


class Sentence:
    """A sentence of a message, and what its words allow to be found in its clauses."""

    def __init__(self, message: Message, span: Span) -> None:
        self.message = message
        self.span = span

    @cached_property
    def sloppy(self) -> bool:
        """Whether somebody leaves out apostrophes."""
        return not self._words.isdisjoint(_SLOPPY_WORDS)

    @cached_property
    def named(self) -> bool:
        """Whether somebody says a name."""
        own = self.message.own
        return not self._words.isdisjoint(_I_AM) and bool(_NAMED.search(own, *self.span))

    @cached_property
    def patterns(self) -> list[Pattern]:
        """What it may state."""
        low, words = self.message.low, self._meant
        beside = {"#"} if _DIGIT.search(low, *self.span) else set()
        beside |= {":"} if low.find(": ", *self.span) > 0 else set()
        return hinted(words | beside)

    @cached_property
    def orders(self) -> bool:
        """Whether it may order something."""
        words = self._meant
        opens = not self._told and may_open(words, self.message.low, self.span)
        return opens or may_order(words)

    @cached_property
    def _words(self) -> AbstractSet[str]:
        start, end = self.span
        return set(self.message.spaced[start:end].split())

    @cached_property
    def _meant(self) -> AbstractSet[str]:
        words = self._words
        return words | {MEANT.get(word, word) for word in words} if self.sloppy else words

    @cached_property
    def _told(self) -> bool:
        """Whether it asks, or tells of what has been."""
        return self.message.low.endswith("?", *self.span) or not self._meant.isdisjoint(PAST)


def laid_down(sentence: Sentence, span: Span) -> Kind | None:
    """What this clause of a sentence lays down, or ``None``."""
    clause = sentence.message.low[span.start : span.end]
    if _ONLY_NO.fullmatch(clause) or _is_filler(clause):
        return None
    likely = _likely(clause)
    if likely < _UNLIKELY and not _MAY_STILL.search(clause):
        return None
    kind = _by_patterns(sentence, span, clause)
    least = _SURE
    if HARMFUL.search(clause):
        least = _HARMS_US if OF_OURS.search(clause) else _HARMS
    if kind is not None or likely < least or asks(clause) or refused(clause):
        return kind
    return next((kind for kind, sounds in _SOUNDS if sounds.search(clause)), Kind.POLICY)


def _is_filler(clause: str) -> bool:
    """Whether a clause says few words again and again: the score has never met such a thing."""
    said = clause.split()
    return len(said) > _FEW and len(said) >= _FEW * len(set(said))


def _likely(clause: str) -> float:
    """The score of a clause, or of the part that sounds most like a rule.

    That is what stands behind its colon or, in doubt, before its first or its last comma: many
    write on and on.
    """
    parts = [clause]
    if behind := _behind_colon(clause):
        parts.append(clause[behind:])
    likely = max(map(score, parts))
    if _IN_DOUBT < likely < _SURE and ", " in clause:
        ends = {clause.find(", "), clause.rfind(", ")}
        ahead = (clause[:end] for end in ends if clause.count(" ", 0, end) >= _SAYS_MUCH)
        likely = max([likely, *map(score, ahead)])
    return likely


def _behind_colon(clause: str) -> int:
    """Where what a colon leads up to begins; 0 if none does."""
    colon = clause.find(": ", 0, _COLON)
    return colon + 2 if colon >= 0 else 0


def _by_patterns(sentence: Sentence, span: Span, clause: str) -> Kind | None:
    if sentence.sloppy:
        clause = _SLOPPY.sub(lambda word: MEANT[word[0]], clause)
    if clause[-1:] == "?":
        clause = _TAGGED.sub("", clause)
    patterns = sentence.patterns
    led = opening(clause) if patterns else 0
    colon = _behind_colon(clause) if patterns else 0
    kind = (
        (_named(sentence.message.own, span) if sentence.named else None)
        or stated(clause, patterns)
        or (stated(clause[led:], patterns) if led else None)
        or (stated(clause[colon:], patterns) if colon else None)
        or (ordered(clause) if sentence.orders else None)
    )
    if kind is None:
        standing = sentence.orders and " you " in clause and _ASKS_ALWAYS.search(clause)
        return Kind.COMMAND if standing else None
    if asks(clause):
        return Kind.COMMAND if _ASKS_ALWAYS.search(clause) else None
    return None if refused(clause) or is_one_act(kind, clause) else kind


def _named(own: str, span: Span) -> Kind | None:
    named = _NAMED.search(own, *span)
    near = named is not None and named.start() - span.start < _GREETING
    return Kind.IDENTITY if named and near and named[1] not in _NO_NAMES else None


def asks(clause: str) -> bool:
    """Whether a clause in lower case is a question."""
    asking = _ASKS.search(clause)
    return clause.endswith(_QUESTION_ENDS) or bool(asking and asking.start() < _EARLY)
