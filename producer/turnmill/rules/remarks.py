"""What a user says after a rule that may end or change it: nobody can be sure, so both are shown.

People take things back in words of their own ("Forget the word limit.", "Ninety is fine for the
alert."). Only the plainest of them end a rule; others stand beside it, and the model that reads
both decides. Whether a sentence is one is told by a linear model over its words, in which those of
the rule are replaced by a mark (`benchmarks.fit_remarks` fits it; hashed as in `scored`).
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple
from zlib import crc32

from turnmill.contract.names import Seq
from turnmill.contract.rules import Remark, Rule
from turnmill.rules.clauses import sentences
from turnmill.rules.content import plain
from turnmill.rules.quoted import own_words
from turnmill.rules.scored import shape_of
from turnmill.rules.wording.english import stem
from turnmill.rules.wording.slots import EMPTY, SLOTS, TEMPORAL

__all__ = [
    "BUCKETS",
    "MODEL",
    "UNIT",
    "as_of",
    "features",
    "remarked",
    "roots_of",
    "sentences_of",
    "speaks_of",
]

BUCKETS: Final = 1 << 14
"""A power of two: the last bits of a hash are its bucket."""

MODEL: Final = "remarks.bin"
"""The file of the weights: a signed byte for each bucket, and one for the bias."""

UNIT: Final = 0.02
"""What one step of a weight adds to the log-odds."""

LEAST: Final = 1.3
"""Log-odds from which on a sentence stands beside the rule."""

_PLAINER: Final = 1.0
"""A newer sentence takes the place of an older one unless that was so much plainer."""

_LONGEST: Final = 240
"""Characters: a longer sentence is no aside."""

_MOST_OF_A_TURN: Final = 64
"""Sentences of a turn that are looked at, the first: a text of thousands is material."""

_NEAREST: Final = 8
"""Rules that a sentence is put beside, those it shares most words with."""

_MOST_TOKENS: Final = 40
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|[$€£]?\d[\d.,:%/-]*\w*|[?!:;(]")
_STEM: Final = 5
_FEW: Final = 4

_OF_THE_RULE: Final = "<r>"
_OTHER_VALUE: Final = "<s>"
_MARKS: Final = frozenset((_OF_THE_RULE, _OTHER_VALUE))


class _Topic(NamedTuple):
    """What a rule is about.

    Attributes:
        roots: of its words that say something.
        values: those that exclude others, with what they are of.
        counts: it has a number, a day or a time.
    """

    roots: frozenset[str]
    values: Mapping[str, str]
    counts: bool


class _Said(NamedTuple):
    """A sentence of a user, cut into tokens, with the root of each that says something."""

    tokens: tuple[str, ...]
    roots: tuple[str, ...]


def as_of(rule: Rule, seq: Seq) -> Rule:
    """The rule without a remark of a later turn."""
    later = rule.remark is not None and rule.remark.seq > seq
    return rule.model_copy(update={"remark": None}) if later else rule


def remarked(standing: Sequence[Rule], sentence: Remark) -> list[Rule]:
    """The rules, with the sentence beside those said before it that it may end or change."""
    said = _said(plain(sentence.text))
    shared = [_shared(said, _topic(plain(rule.text))) for rule in standing]
    near = heapq.nlargest(_NEAREST, range(len(standing)), key=shared.__getitem__)
    about = {at for at in near if shared[at] and standing[at].seq < sentence.seq}
    if not about:
        return list(standing)
    return [_with(rule, sentence) if at in about else rule for at, rule in enumerate(standing)]


def _shared(said: _Said, topic: _Topic) -> int:
    """How many words of a rule a sentence has, or other values of the same sort."""
    values = (SLOTS.get(token) in topic.values.values() for token in said.tokens)
    return len(topic.roots.intersection(said.roots)) + (bool(topic.values) and any(values))


def _with(rule: Rule, sentence: Remark) -> Rule:
    known = rule.remark
    if rule.revised == sentence.seq or (known is not None and known.seq >= sentence.seq):
        return rule
    sure = speaks_of(sentence.text, rule.text)
    if sure < LEAST:
        return rule
    if known is not None and sure < speaks_of(known.text, rule.text) - _PLAINER:
        return rule
    return rule.model_copy(update={"remark": sentence})


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of what a user says that are short enough, without what only asks."""
    own = own_words(text)
    for at, (start, end) in enumerate(sentences(own)):
        if at >= _MOST_OF_A_TURN:
            return
        said = text[start:end].strip()
        if said and len(said) <= _LONGEST and said[-1] not in "?？؟":
            yield said


@lru_cache(maxsize=8192)
def speaks_of(sentence: str, rule: str) -> float:
    """The log-odds that a later sentence ends or changes a rule; minus infinity if not of it."""
    found = features(sentence, rule)
    if not found:
        return -math.inf
    weights = _weights()
    return UNIT * (weights[BUCKETS] + sum(map(weights.__getitem__, found)))


def features(sentence: str, rule: str) -> frozenset[int]:
    """The buckets of a sentence beside a rule; none where they share no word or sort of value."""
    topic, said = _topic(plain(rule)), _said(plain(sentence))
    marked = [_mark(token, root, topic) for token, root in zip(*said, strict=True)]
    if _MARKS.isdisjoint(marked):
        return frozenset()
    return frozenset(crc32(name.encode()) % BUCKETS for name in _names(said, marked, topic))


def roots_of(text: str) -> frozenset[str]:
    """The roots of the words by which a rule and a sentence are known to be of one thing."""
    return _topic(plain(text)).roots


def _names(said: _Said, marked: Sequence[str], topic: _Topic) -> Iterator[str]:
    shared = topic.roots.intersection(said.roots)
    yield f"shared {min(len(shared), _FEW)}"
    yield f"of it {_FEW * len(shared) // (len(topic.roots) or 1)}"
    yield f"counts {topic.counts} {'<n>' in marked} {min(len(shared), 2)}"
    yield f"long {min(len(marked) // 6, 5)}"
    yield from (f"word {token[:_STEM]}" for token in said.tokens if shape_of(token)[0] == "~")
    before = two = "^"
    for mark in (*marked, "$"):
        yield mark
        yield f"{before} {mark}"
        if not _MARKS.isdisjoint((two, before, mark)):
            yield f"{two} {before} {mark}"
        two, before = before, mark


def _mark(token: str, root: str, topic: _Topic) -> str:
    """What a token is beside the rule: a word of it, another value of a sort it has, a number."""
    if token in topic.values or root in topic.roots:
        return _OF_THE_RULE
    if SLOTS.get(token) in topic.values.values():
        return _OTHER_VALUE
    if token in TEMPORAL or token[-1].isdigit() or token[0].isdigit():
        return "<n>" if topic.counts else "<0>"
    return shape_of(token)


@lru_cache(maxsize=1024)
def _topic(rule: str) -> _Topic:
    tokens = _TOKEN.findall(rule)
    return _Topic(
        roots=frozenset(filter(None, map(_root, tokens))),
        values={token: SLOTS[token] for token in tokens if token in SLOTS},
        counts=any(token in TEMPORAL or any(map(str.isdigit, token)) for token in tokens),
    )


@lru_cache(maxsize=1024)
def _said(sentence: str) -> _Said:
    tokens = tuple(_TOKEN.findall(sentence)[:_MOST_TOKENS])
    return _Said(tokens, tuple(map(_root, tokens)))


def _root(token: str) -> str:
    """What a word has in common with its kin, as deployments have with what is deployed."""
    return "" if token in EMPTY else stem(token)[:_STEM]


@cache
def _weights() -> memoryview:
    """Read at the first question: an agent that says nothing new never needs them."""
    return memoryview(files("turnmill.rules").joinpath(MODEL).read_bytes()).cast("b")
