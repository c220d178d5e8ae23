"""Whether a later sentence replaces what an earlier one says: one question for rules and values.

A linear model reads the later sentence beside the earlier one. It knows how much either sounds
like a change or like something that can be changed, what both are about, and whether another value
of the same sort stands in the later one. A mark that is wrong misleads, and one that is missing
leaves two sentences with their turns: the bounds take precision before recall.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

from turnmill_worker.reading.linear import bucket, grams, hashed, weights
from turnmill_worker.reading.words import CAPS, CODE, KIND, KNOWN, NAME, NUMBER, PLAIN, common

MODEL: Final = "changes.bin"
BITS: Final = 16
MASK: Final = (1 << BITS) - 1
UNIT: Final = 0.02
"""What one step of a weight adds to the log-odds."""

LEAST_OF_VALUES: Final = -0.5
LEAST_OF_NAMES: Final = 1.5
LEAST_OF_RULES: Final = 1.5
"""Log-odds from which on the later sentence replaces the earlier one: where it has another value,
where it only has another name, and where it has neither but the earlier one is a rule. Of other
sentences few are taken back in words alone."""

MOST_BESIDE: Final = 4.0
"""Log-odds that what a sentence has in common with an earlier one adds, but for few."""

_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%-]\w+)*%?|[?!:;(]")
_LABEL = re.compile(r"^(?:[^\W\d_][\w'-]{0,20}(?: [^\W\d_][\w'-]{0,20}){0,2}: +)+(?=\S)")
_RUN = re.compile(r"(\d+)|([A-Z]+)|([a-z]+)")
_REPEATED = re.compile(r"([-/:.]0)\1+")
_MOST: Final = 40
"""Tokens of a sentence that are looked at."""

_VALUES: Final = frozenset({CODE, NUMBER, CAPS})
_NAMED: Final = "Name"
_SHAPE: Final = 8
_BEGINS: Final = 4
_ASKS: Final = frozenset("?？؟")


class Told(NamedTuple):
    """A sentence as it is compared.

    Attributes:
        tokens: what it is cut into, in lower case, but for its label.
        roots: of each token; 0 where it says little.
        sorts: of each token that is a value; "" of others.
        newer: features of the sentence as the later one.
        older: features of it as the earlier one.
    """

    tokens: tuple[str, ...]
    roots: tuple[int, ...]
    sorts: tuple[str, ...]
    newer: frozenset[int]
    older: frozenset[int]

    def values(self) -> dict[str, str]:
        """The sort of each value."""
        return {token: sort for token, sort in zip(self.tokens, self.sorts, strict=True) if sort}

    def about(self) -> set[int]:
        """The roots that are no values."""
        return {
            root for root, sort in zip(self.roots, self.sorts, strict=True) if root and not sort
        }


@lru_cache(maxsize=4096)
def told(text: str) -> Told:
    """A sentence, read."""
    written = _TOKEN.findall(_LABEL.sub("", text))[:_MOST]
    roots, sorts = [], []
    for at, token in enumerate(written):
        ids = KNOWN[token] if token[-1] not in "?!:;(" else ()
        first = ids[0] if ids else PLAIN
        roots.append(0 if first & KIND == PLAIN else first)
        named = at > 0 and ids and ids[-1] & KIND == NAME
        valued = first & KIND in _VALUES or token[0].isdigit()
        sorts.append(_sort(token) if valued else _NAMED if named else "")
    tokens = [token.lower().replace("’", "'") for token in written]
    plain = [
        "0" if sort and sort != _NAMED else token for token, sort in zip(tokens, sorts, strict=True)
    ]
    newer = {each & MASK for each in grams(plain)}
    newer.add(_named(f"long {min(len(tokens) // 6, 5)}"))
    return Told(
        tuple(tokens), tuple(roots), tuple(sorts), frozenset(newer), frozenset(_older(tokens))
    )


def _older(tokens: list[str]) -> Iterator[int]:
    """What an earlier sentence is like: its tokens, and how they follow each other."""
    known = [hashed(token) for token in ("^", *tokens, "$")]
    for one, two in pairwise(known):
        yield two.own[0] & MASK ^ _SALT
        yield (one.shape_before ^ two.third) & MASK ^ _SALT


_SALT: Final = bucket("older") & MASK


@lru_cache(maxsize=1 << 14)
def _sort(token: str) -> str:
    """Of what sort a value is: its characters but for how many there are of a kind."""
    shape = _REPEATED.sub(r"\1", _RUN.sub(lambda run: "0Aa"[(run.lastindex or 1) - 1], token))
    return _NAMED if shape == "A" else shape[:_SHAPE]


def _named(feature: str) -> int:
    return crc32(feature.encode()) & MASK


class Beside:
    """Two sentences, one beside the other.

    Attributes:
        shared: the roots that both have.
        fresh: values of the later one that the earlier one has others of the same sort of.
    """

    def __init__(self, before: Told, after: Told) -> None:
        self.before, self.after = before, after
        self.had, self.has = before.values(), after.values()
        self.sorts = set(self.had.values())
        self.shared = set(before.roots).intersection(after.roots) - {0}
        self.fresh = [
            token
            for token, sort in self.has.items()
            if sort in self.sorts and token not in self.had
        ]

    @cached_property
    def slot(self) -> str:
        """Whether there is a fresh value, and whether it stands before or behind the same words."""
        fresh = set(self.fresh)
        led = {(sort, left) for left, token, sort, _ in _placed(self.before) if token in self.had}
        ends = {
            (sort, right) for _, token, sort, right in _placed(self.before) if token in self.had
        }
        new = [each for each in _placed(self.after) if each[1] in fresh]
        leads = any((sort, left) in led for left, _, sort, _ in new)
        return (
            f"{bool(fresh):d}{leads:d}{any((sort, right) in ends for _, _, sort, right in new):d}"
        )

    def features(self) -> set[int]:
        """The buckets of what they have in common; none if that is nothing."""
        if not self.shared and not self.sorts.intersection(self.has.values()):
            return set()
        return {_named(feature) for feature in (*self._counted(), *self._marked())}

    def _counted(self) -> Iterator[str]:
        known, said = self.before.about(), self.after.about()
        about, slot, usual = known & said, self.slot, common()
        few = min(len(about), 2)
        rare = sum(root not in usual for root in about)
        covered = 4 * len(about) // len(known) if known else 5
        fits = 4 * len(about) // max(1, len(said))
        left, more = len(known - said), len(said - known)
        kept = not self.has.keys().isdisjoint(self.had)
        odd = sum(
            token not in self.had and sort not in self.sorts for token, sort in self.has.items()
        )
        coded = any(len(self.has[token]) > 1 and self.has[token] != _NAMED for token in self.fresh)
        starts = {
            token[:_BEGINS]
            for token, sort in self.had.items()
            if len(token) > _BEGINS and sort != _NAMED
        }
        akin = any(token[:_BEGINS] in starts for token in self.has if token not in self.had)
        yield from (f"about {min(len(about), 4)}", f"rare {min(rare, 3)}", f"covered {covered}")
        yield from (f"fits {fits}", f"both {covered} {fits}", f"slot {slot}", f"slot {slot} {few}")
        yield from (f"slot {slot} rare {min(rare, 2)}", f"slot {slot} covered {covered}")
        yield from (
            f"kept {kept}",
            f"kept {kept} {slot}",
            f"odd {min(odd, 2)}",
            f"odd {odd > 0} {slot}",
        )
        yield from (f"coded {coded}", f"coded {coded} {few}", f"akin {akin}", f"akin {akin} {few}")
        yield from (f"left {min(left, 4)}", f"left {min(left, 3)} {min(more, 4)}")
        yield from (
            f"values {bool(self.had)} {bool(self.has)}",
            *(f"sort {self.has[each]}" for each in self.fresh),
        )
        contrasts = min(self.contrasts(), 2)
        yield from (f"contrasts {contrasts}", f"contrasts {contrasts} {slot}")

    def _marked(self) -> Iterator[str]:
        """Of each word that says what was changed: the words on both sides of it."""
        known, before = self.before.about(), ""
        for (left, token, sort, right), root in zip(
            _placed(self.after), self.after.roots, strict=True
        ):
            if sort:
                mark = "kept" if token in self.had else "fresh" if sort in self.sorts else "odd"
            else:
                mark = "word" if root in known else ""
            if mark:
                yield from (f"{mark} <{left}", f"{mark} >{right}", f"{mark} {left} {right}")
                yield f"{mark} <<{before} {left}"
            before = left
        for (left, _, _, right), root in zip(_placed(self.before), self.before.roots, strict=True):
            if root in self.shared:
                yield from (f"older <{left}", f"older >{right}")

    def contrasts(self) -> int:
        """How often another word stands between the same two: both say the same of two things."""
        ours: dict[tuple[str, str], set[int]] = {}
        for (left, _, sort, right), root in zip(
            _placed(self.before), self.before.roots, strict=True
        ):
            if root and not sort:
                ours.setdefault((left, right), set()).add(root)
        known, said = self.before.about(), self.after.about()
        return sum(
            (left, right) in ours and root not in known and not ours[left, right] <= said
            for (left, _, sort, right), root in zip(
                _placed(self.after), self.after.roots, strict=True
            )
            if root and not sort
        )


def _placed(one: Told) -> Iterator[tuple[str, str, str, str]]:
    """Each token with its sort, between the tokens on its left and right."""
    edged = ("", *one.tokens, "")
    return zip(edged, one.tokens, one.sorts, edged[2:], strict=False)


def features(older: str, newer: str) -> set[int]:
    """The buckets of a later sentence beside an earlier one; none if they share nothing."""
    before, after = told(older), told(newer)
    beside = Beside(before, after).features()
    return beside | before.older | after.newer if beside else beside


def likely(newer: str) -> float:
    """How much a sentence alone sounds like a change, as log-odds."""
    table = weights(MODEL)
    return UNIT * (table[MASK + 1] + sum(map(table.__getitem__, told(newer).newer)))


def change(older: str, newer: str) -> float:
    """The log-odds that the later sentence ends or changes what the earlier one says."""
    table, found = weights(MODEL), features(older, newer)
    return UNIT * (table[MASK + 1] + sum(map(table.__getitem__, found))) if found else -math.inf


def may_change(newer: str) -> bool:
    """Whether a sentence may replace anything, whatever stands before it."""
    return newer[-1:] not in _ASKS and likely(newer) + MOST_BESIDE >= LEAST_OF_VALUES


def replaces(older: str, newer: str, *, rule: bool = False) -> bool:
    """Whether what the earlier sentence says no longer holds once the later one is said.

    ``rule``: the earlier one is a rule, which people do take back in words of their own. Of any
    other sentence the later one must have another value.
    """
    if not may_change(newer):
        return False
    beside = Beside(told(older), told(newer))
    if any(beside.has[token] != _NAMED for token in beside.fresh):
        least = LEAST_OF_VALUES
    elif beside.fresh:
        least = LEAST_OF_NAMES
    else:
        least = LEAST_OF_RULES if rule else math.inf
    return least < math.inf and change(older, newer) >= least


def restates(older: str, newer: str) -> bool:
    """Whether a later sentence lays down the same as a rule, with another value.

    As ``over 8000, not over 4500`` does. It shares what the rule is about, names no thing of a sort
    that the rule does not name, and has another value of one sort; if it repeats the rule's own
    number beside, less has to be shared.
    """
    if newer[-1:] in _ASKS:
        return False
    before, after = told(older), told(newer)
    beside = Beside(before, after)
    if not beside.fresh or not beside.sorts.issuperset(beside.has.values()):
        return False
    other = {beside.has[token] for token in beside.fresh}
    about = before.about()
    shared = len(about & after.about())
    again = any(
        token in beside.has and sort in other and token[-1:].isdigit()
        for token, sort in beside.had.items()
    )
    enough = shared > 0 if again else shared > 1 and 2 * shared >= len(about)
    return enough and not beside.contrasts()
