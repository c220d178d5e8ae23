"""How sure it is that a later sentence of a user ends or changes a rule: a linear model.

Its features are the words of the sentence, and runs of two and three, in which words of the rule
are one mark, and other values of the same sort another; hashed into buckets as in `scored`.
`benchmarks.fit_remarks` fits it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from turnmill.rules.content import plain
from turnmill.rules.scored import shape_of, weights_of
from turnmill.rules.wording.english import stem
from turnmill.rules.wording.lexicon import words
from turnmill.rules.wording.slots import EMPTY, SLOTS, TEMPORAL

__all__ = ["BUCKETS", "MODEL", "UNIT", "features", "in_common", "roots_of", "speaks_of"]

BUCKETS: Final = 1 << 14
"""A power of two: the last bits of a hash are its bucket."""

MODEL: Final = "remarks.bin"
"""The file of the weights: a signed byte for each bucket, and one for the bias."""

UNIT: Final = 0.02
"""What one step of a weight adds to the log-odds."""

_MOST_TOKENS: Final = 40
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|[$€£]?\d[\d.,:%/-]*\w*|[?!:;(]")
_STEM: Final = 5
_FEW: Final = 4

_SAYS_LITTLE: Final = words(
    "ich du er sie es wir ihr mich mir dich dir uns euch mein meine meinen dein deine unser das "
    "dem des ein eine einen einem einer und oder aber doch weil wenn dass nicht nie kein keine "
    "immer nur schon noch bitte ist sind habe kann soll sollst muss darf mit ohne für von vom zu "
    "zum zur im auf aus bei nach vor über wie jetzt ab je tu il elle nous vous ils le la un une du "
    "de au aux et ou mais donc ne plus jamais toujours que qui suis ce cette ces mes votre dans "
    "avec sans yo él las una pero porque si cuando tu su nunca siempre sólo más muy soy es está lo "
    "al del en eu você ele ela os um uma e não sempre só mais muito sou são com em da io lui lei "
    "gli ed più molto sei è hai che di il nel della dei ik jij hij wij het een maar niet nooit "
    "altijd alleen zijn voor naar op aan bij я ты он она мы вы они меня мне тебя мой моя и или но "
    "что как не ни нет никогда всегда только уже это в на с со у о к по за из для при же бы"
)
"""Words of other languages that say nothing of what a rule is about, and are no English ones."""

_OF_THE_RULE: Final = "<r>"
_OTHER_VALUE: Final = "<s>"
_MARKS: Final = frozenset((_OF_THE_RULE, _OTHER_VALUE))


class _Topic(NamedTuple):
    """What a rule is about.

    Attributes:
        roots: of its words that say something.
        values: those that exclude others.
        rows: what those are of.
        counts: it has a number, a day or a time.
    """

    roots: frozenset[str]
    values: frozenset[str]
    rows: frozenset[str]
    counts: bool


class _Said(NamedTuple):
    """A sentence of a user.

    Attributes:
        tokens: what it is cut into.
        roots: of each token; ``""`` where it says little.
        roots_said: those that say something.
        rows: what values in it are of that exclude others.
    """

    tokens: tuple[str, ...]
    roots: tuple[str, ...]
    roots_said: frozenset[str]
    rows: frozenset[str]


@lru_cache(maxsize=8192)
def speaks_of(sentence: str, rule: str) -> float:
    """The log-odds that a later sentence ends or changes a rule; minus infinity if not of it."""
    found = features(sentence, rule)
    if not found:
        return -math.inf
    weights = weights_of(MODEL)
    return UNIT * (weights[BUCKETS] + sum(map(weights.__getitem__, found)))


def features(sentence: str, rule: str) -> frozenset[int]:
    """The buckets of a sentence beside a rule; none where they share no word or sort of value."""
    topic, said = _topic(rule), _said(sentence)
    marked = [
        _mark(token, root, topic) for token, root in zip(said.tokens, said.roots, strict=True)
    ]
    if _MARKS.isdisjoint(marked):
        return frozenset()
    return frozenset(crc32(name.encode()) % BUCKETS for name in _names(said, marked, topic))


def roots_of(text: str) -> frozenset[str]:
    """The roots of the words by which a rule and a sentence are known to be of one thing."""
    return _topic(text).roots


def in_common(sentence: str, rule: str) -> int:
    """How many words they share, and one more for values of the same sort."""
    topic, said = _topic(rule), _said(sentence)
    return len(topic.roots & said.roots_said) + (not topic.rows.isdisjoint(said.rows))


def _names(said: _Said, marked: Sequence[str], topic: _Topic) -> Iterator[str]:
    shared = topic.roots & said.roots_said
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
    if SLOTS.get(token) in topic.rows:
        return _OTHER_VALUE
    if token in TEMPORAL or token[-1].isdigit() or token[0].isdigit():
        return "<n>" if topic.counts else "<0>"
    return shape_of(token)


@lru_cache(maxsize=1024)
def _topic(rule: str) -> _Topic:
    tokens = _TOKEN.findall(plain(rule))
    return _Topic(
        roots=frozenset(filter(None, map(_root, tokens))),
        values=frozenset(token for token in tokens if token in SLOTS),
        rows=_rows(tokens),
        counts=any(token in TEMPORAL or any(map(str.isdigit, token)) for token in tokens),
    )


@lru_cache(maxsize=1024)
def _said(sentence: str) -> _Said:
    tokens = tuple(_TOKEN.findall(plain(sentence))[:_MOST_TOKENS])
    roots = tuple(map(_root, tokens))
    return _Said(tokens, roots, frozenset(filter(None, roots)), _rows(tokens))


def _rows(tokens: Sequence[str]) -> frozenset[str]:
    return frozenset(SLOTS[token] for token in tokens if token in SLOTS)


def _root(token: str) -> str:
    """What a word has in common with its kin, as deployments have with what is deployed."""
    return "" if token in EMPTY or token in _SAYS_LITTLE else stem(token)[:_STEM]
