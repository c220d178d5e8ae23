"""Whether a later sentence replaces what an earlier one says: one question for rules and values.

A linear model reads the later sentence beside the earlier one. It knows how much either sounds
like a change or like something that can be changed, what both are about, and whether another value
of the same sort stands in the later one. A mark that is wrong misleads, and one that is missing
leaves two sentences with their turns: the bounds take precision before recall.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

from turnmill_worker.reading.linear import MASK, bucket, grams, hashed, weights
from turnmill_worker.reading.words import CAPS, CODE, KIND, KNOWN, NAME, NUMBER, PLAIN, common

MODEL: Final = "changes.bin"
UNIT: Final = 0.02
"""What one step of a weight adds to the log-odds."""

LEAST: Final = {"value": (-0.5, -0.5), "name": (3.0, 0.5), "": (math.inf, 2.5)}
"""Log-odds from which on the later sentence replaces the earlier one, by whether it has another
value, only another name, or neither; and the same if the earlier one is a rule. Of other sentences
few are taken back in words alone."""

_PAIRS: Final = 1 << 14
"""Pairs of sentences that are remembered: a turn is heard again while it stays as it is."""

LEAST_ALONE: Final = -2.0
"""Log-odds of the later sentence alone below which nothing is looked for."""

_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%-]\w+)*%?|[?!:;(]")
_LABEL = re.compile(r"^(?:[^\W\d_][\w'-]{0,20}(?: [^\W\d_][\w'-]{0,20}){0,2}: +)+(?=\S)")
_RUN = re.compile(r"(\d+(?:[.,]\d+)*)|([A-Z]+)|([a-z]+)")
_REPEATED = re.compile(r"([-/:]0)\1+")
_DIGIT = re.compile(r"\d")
_MOST: Final = 40
"""Tokens of a sentence that are looked at."""

_VALUES: Final = frozenset({CODE, NUMBER, CAPS})
_NAMED, _SHAPE, _BEGINS = "Name", 8, 4
_ASKS: Final = frozenset("?？؟")


class Word(NamedTuple):
    """A token of a sentence as it is compared, in lower case.

    Attributes:
        root: its number; 0 if it says little.
        sort: of what sort a value is; "" of other words.
        left, right: the tokens beside it.
    """

    text: str
    root: int
    sort: str
    left: str
    right: str


@lru_cache(maxsize=4096)
def told(sentence: str) -> tuple[Word, ...]:
    """A sentence, read, but for its label."""
    written = _TOKEN.findall(_LABEL.sub("", sentence))[:_MOST]
    edged = ["", *(token.lower().replace("’", "'") for token in written), ""]
    found = []
    for at, token in enumerate(written):
        ids = KNOWN[token] if token[-1] not in "?!:;(" else ()
        first = ids[0] if ids else PLAIN
        root = 0 if first & KIND == PLAIN else first
        named = at > 0 and ids and ids[-1] & KIND == NAME
        valued = first & KIND in _VALUES or token[0].isdigit()
        sort = _sort(token) if valued else _NAMED if named else ""
        found.append(Word(edged[at + 1], root, sort, edged[at], edged[at + 2]))
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def _sort(token: str) -> str:
    """Of what sort a value is: its characters but for how many there are of a kind."""
    shape = _REPEATED.sub(r"\1", _RUN.sub(lambda run: "0Aa"[(run.lastindex or 1) - 1], token))
    return _NAMED if shape == "A" else shape[:_SHAPE]


@lru_cache(maxsize=4096)
def as_newer(sentence: str) -> tuple[int, ...]:
    """The features of a sentence as the later one; of its numbers only that they are there."""
    tokens = _TOKEN.findall(_LABEL.sub("", sentence.lower().replace("’", "'")))[:_MOST]
    plain = [each if each.isalpha() or not _DIGIT.search(each) else "0" for each in tokens]
    return (*grams(plain), _LENGTHS[min(len(plain) // 6, len(_LENGTHS) - 1)])


@lru_cache(maxsize=4096)
def as_older(sentence: str) -> tuple[int, ...]:
    """The features of a sentence as the earlier one: its tokens, and how they follow each other."""
    known = [hashed(token) for token in ("^", *(word.text for word in told(sentence)), "$")]
    words = [(two.own[0], one.shape_before ^ two.third) for one, two in pairwise(known)]
    return tuple(each ^ _SALT for both in words for each in both)


_SALT: Final = bucket("older")
_LENGTHS: Final = tuple(bucket(f"long {at}") for at in range(6))


class Beside:
    """Two sentences, one beside the other.

    Attributes:
        had, has: the values of the earlier and of the later one, with their sorts.
        known, said: the roots of their other words.
        fresh: values of the later one that the earlier one has others of the same sort of.
    """

    def __init__(self, before: tuple[Word, ...], after: tuple[Word, ...]) -> None:
        self.before, self.after = before, after
        self.had, self.has = (
            {word.text: word.sort for word in each if word.sort} for each in (before, after)
        )
        self.known, self.said = (
            {word.root for word in each if word.root and not word.sort} for each in (before, after)
        )
        self.sorts = set(self.had.values())
        self.fresh = [
            value
            for value, sort in self.has.items()
            if sort in self.sorts and value not in self.had
        ]

    def features(self) -> set[int]:
        """The buckets of what they have in common; none if that is nothing."""
        shared = {word.root for word in self.before}.intersection(word.root for word in self.after)
        if not shared - {0} and self.sorts.isdisjoint(self.has.values()):
            return set()
        counts = self._counts()
        found = {_counted(names, *map(counts.__getitem__, names)) for names in _COUNTED}
        sorts = (f"sort {self.has[value]} {counts['few']}" for value in self.fresh)
        found.update(crc32(each.encode()) & MASK for each in (*sorts, *self._marked()))
        return found

    def _counts(self) -> dict[str, object]:
        about, usual = self.known & self.said, common()
        covered = 4 * len(about) // len(self.known) if self.known else 5
        codes = {value[:_BEGINS] for value in self.had if len(value) > _BEGINS}
        others = [value for value in self.has if value not in self.had]
        left, more = len(self.known - self.said), len(self.said - self.known)
        return {
            "about": min(len(about), 4),
            "few": min(len(about), 2),
            "rare": min(sum(root not in usual for root in about), 3),
            "covered": covered,
            "fits": 4 * len(about) // max(1, len(self.said)),
            "slot": self._slot(),
            "kept": not self.has.keys().isdisjoint(self.had),
            "odd": min(sum(self.has[value] not in self.sorts for value in others), 2),
            "akin": any(value[:_BEGINS] in codes for value in others if self.has[value] != _NAMED),
            "left": min(left, 3),
            "more": min(more, 4),
            "had": bool(self.had),
            "has": bool(self.has),
            "contrasts": min(self.contrasts(), 2),
        }

    def _slot(self) -> str:
        """Whether there is a fresh value, behind or before the same words as an old one."""
        led, ends = (
            {(word.sort, word[side]) for word in self.before if word.sort}
            for side in (_LEFT, _RIGHT)
        )
        new = [word for word in self.after if word.text in self.fresh]
        leads = any((word.sort, word.left) in led for word in new)
        return f"{bool(new):d}{leads:d}{any((word.sort, word.right) in ends for word in new):d}"

    def _marked(self) -> Iterator[str]:
        """Of each word that says what was changed: the words around it."""
        before = ""
        for text, root, sort, left, right in self.after:
            mark = "word" if root in self.known and not sort else ""
            if sort:
                mark = "kept" if text in self.had else "fresh" if sort in self.sorts else "odd"
            if mark:
                yield from (f"{mark} <{left}", f"{mark} >{right}", f"{mark} {left} {right}")
                yield f"{mark} <<{before} {left}"
            before = left

    def contrasts(self) -> int:
        """How often another word stands between the same two: both say the same of two things."""
        places: dict[tuple[str, str], set[int]] = {}
        for _, root, sort, left, right in self.before:
            if root and not sort:
                places.setdefault((left, right), set()).add(root)
        return sum(
            not places.get((left, right), self.said) <= self.said
            for _, root, sort, left, right in self.after
            if root and not sort and root not in self.known
        )


@lru_cache(maxsize=4096)
def _counted(names: tuple[str, ...], *values: object) -> int:
    """The bucket of counts that stand together."""
    told = " ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
    return crc32(told.encode()) & MASK


_LEFT, _RIGHT = Word._fields.index("left"), Word._fields.index("right")
# fmt: off
_COUNTED: Final = tuple(tuple(names.split()) for names in (
    "about", "rare", "covered", "fits", "covered fits", "slot", "slot few", "slot rare",
    "slot covered", "kept", "kept slot", "odd", "odd slot", "akin", "akin few", "left",
    "left more", "had has", "contrasts", "contrasts slot",
))
# fmt: on
"""Which counts are features, alone or together."""


def features(older: str, newer: str) -> list[int]:
    """The buckets of a later sentence beside an earlier one; none if they share nothing."""
    beside = Beside(told(older), told(newer)).features()
    return [*sorted(beside), *as_older(older), *as_newer(newer)] if beside else []


def change(older: str, newer: str) -> float:
    """The log-odds that the later sentence ends or changes what the earlier one says."""
    return _summed_beside(Beside(told(older), told(newer)), older, newer)


def _summed_beside(both: Beside, older: str, newer: str) -> float:
    found = both.features()
    if not found:
        return -math.inf
    return UNIT * (_summed(found) + _of_older(older) + _of_newer(newer) + weights(MODEL)[MASK + 1])


def _summed(found: Iterable[int]) -> int:
    return sum(map(weights(MODEL).__getitem__, found))


@lru_cache(maxsize=4096)
def _of_older(sentence: str) -> int:
    return _summed(as_older(sentence))


@lru_cache(maxsize=4096)
def _of_newer(sentence: str) -> int:
    return _summed(as_newer(sentence))


def may_change(newer: str) -> bool:
    """Whether a sentence may replace anything, whatever stands before it."""
    alone = UNIT * (weights(MODEL)[MASK + 1] + _of_newer(newer))
    return newer[-1:] not in _ASKS and alone >= LEAST_ALONE


@lru_cache(maxsize=_PAIRS)
def replaces(older: str, newer: str, *, rule: bool = False) -> bool:
    """Whether what the earlier sentence says no longer holds once the later one is said.

    ``rule``: the earlier one is a rule, which people do take back in words of their own. Of any
    other sentence the later one must have another value.
    """
    if not may_change(newer):
        return False
    beside = Beside(told(older), told(newer))
    valued = any(beside.has[token] != _NAMED for token in beside.fresh)
    least = LEAST["value" if valued else "name" if beside.fresh else ""][rule]
    return least < math.inf and _summed_beside(beside, older, newer) >= least


@lru_cache(maxsize=_PAIRS)
def restates(older: str, newer: str) -> bool:
    """Whether a later sentence lays down the same as a rule, with another value.

    As ``over 8000, not over 4500`` does. It shares what the rule is about, names no thing of a sort
    that the rule does not name, and has another value of one sort; if it repeats the rule's own
    number beside, less has to be shared.
    """
    if newer[-1:] in _ASKS:
        return False
    beside = Beside(told(older), told(newer))
    if not beside.fresh or not beside.sorts.issuperset(beside.has.values()):
        return False
    other = {beside.has[value] for value in beside.fresh}
    shared = len(beside.known & beside.said)
    again = any(
        value in beside.has and sort in other and value[-1:].isdigit()
        for value, sort in beside.had.items()
    )
    enough = shared > 0 if again else shared > 1 and 2 * shared >= len(beside.known)
    return enough and not beside.contrasts()
