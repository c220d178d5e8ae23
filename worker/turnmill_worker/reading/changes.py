"""Whether a later sentence replaces what an earlier one says: one question for rules and values.

A linear model reads the later sentence beside the earlier one: in it, a word of the earlier one is
one mark, and another value of the same sort as one of the earlier one is another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from turnmill_worker.reading.linear import grams, hashed, weights
from turnmill_worker.reading.words import CAPS, CODE, KIND, KNOWN, NAME, NUMBER, PLAIN, WORD, common

MODEL: Final = "changes.bin"
BITS: Final = 15
MASK: Final = (1 << BITS) - 1
UNIT: Final = 0.03
LEAST_OF_RULE, LEAST, LEAST_SAID_AGAIN = 0.5, 1.5, 0.0
"""Log-odds from which on the later sentence is taken to replace a rule, and any other sentence."""

_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%-]\w+)*%?|[?!:;(]")
_LABEL = re.compile(r"^(?:[^\W\d_][\w'-]{0,20}(?: [^\W\d_][\w'-]{0,20}){0,2}: +)+(?=\S)")
_MOST: Final = 40
_VALUES: Final = frozenset({CODE, NUMBER, CAPS})


class Told(NamedTuple):
    """A sentence as it is compared.

    Attributes:
        tokens: what it is cut into, in lower case.
        roots: of each token; 0 where it says little.
        sorts: of each token that is a value; "" of others.
        shapes: hashes of the tokens and their edges, as neighbours see them.
    """

    tokens: tuple[str, ...]
    roots: tuple[int, ...]
    sorts: tuple[str, ...]
    shapes: tuple[int, ...]


@lru_cache(maxsize=4096)
def told(text: str) -> Told:
    """A sentence, read."""
    tokens = _TOKEN.findall(_LABEL.sub("", text))[:_MOST]
    roots, sorts = [], []
    for at, token in enumerate(tokens):
        ids = KNOWN[token] if token[-1] not in "?!:;(" else ()
        first = ids[0] if ids else PLAIN
        named = bool(ids) and at > 0 and ids[-1] & KIND == NAME
        roots.append(0 if first & KIND == PLAIN else first)
        sorts.append(_sort(token) if first & KIND in _VALUES or token[0].isdigit() else "Name" if named else "")
    low = tuple(token.lower().replace("’", "'") for token in tokens)
    return Told(low, tuple(roots), tuple(sorts), tuple(hashed(token)[2] for token in ("^", *low, "$")))


def _sort(token: str) -> str:
    """Of what sort a value is: its characters but for how many there are of a kind."""
    shape = re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "0", token)))
    return shape if len(shape) < 8 else shape[:8]


@lru_cache(maxsize=4096)
def _own(newer: str) -> frozenset[int]:
    """The features of a sentence alone: how much it sounds like a change of anything."""
    after = told(newer)
    found = {each & MASK for each in grams(list(after.tokens))}
    found.add(crc32(b"long %d" % min(len(after.tokens) // 6, 5)) & MASK)
    return frozenset(found)


def features(older: str, newer: str) -> set[int]:
    """The buckets of a later sentence beside an earlier one; none where they have nothing in common."""
    pair = _pair(told(older), told(newer))
    return _own(newer) | pair if pair else set()


_ROOT, _VALUE, _OTHER = (crc32(name) for name in (b"<r>", b"<v>", b"<n>"))


def _pair(before: Told, after: Told) -> set[int]:
    known = set(before.roots)
    known.discard(0)
    shared = known.intersection(after.roots)
    had = set(before.sorts)
    had.discard("")
    if not shared and had.isdisjoint(after.sorts):
        return set()
    marks = [
        (at, _ROOT if root in known else _VALUE if sort in had else _OTHER)
        for at, (root, sort) in enumerate(zip(after.roots, after.sorts, strict=True))
        if root in known or sort and had
    ]
    rows = after.shapes
    found = set()
    for at, mark in marks:
        found.update((rows[at] * 3 + mark & MASK, rows[at + 2] * 5 + mark & MASK, rows[at] * 7 + rows[at + 2] * 11 + mark & MASK))
    kinds = {mark for _, mark in marks}
    few, usual = len(shared), common()
    rare = sum(root not in usual for root in shared)
    changed = _VALUE in kinds
    fresh = sum(root != 0 and root not in known and not sort for root, sort in zip(after.roots, after.sorts, strict=True))
    starts = {token[:4] for token, sort in zip(before.tokens, before.sorts, strict=True) if sort and len(token) > 5}
    akin = any(sort and token[:4] in starts and root not in known for token, root, sort in zip(after.tokens, after.roots, after.sorts, strict=True))
    found.update(
        crc32(name) & MASK
        for name in (
            b"shared %d" % min(few, 4), b"share %d" % (4 * few // max(len(known), 1)), b"rare %d" % min(rare, 3),
            b"values %d %d %d" % (changed, bool(had), few > 1), b"values %d %d" % (changed, min(rare, 2)), b"akin %d %d" % (akin, changed),
            b"left %d %d" % (min(len(known) - few, 4), few > 2), b"left %d %d %d" % (min(len(known) - few, 3), min(fresh, 3), changed),
        )  # fmt: skip
    )
    return found


def likely(newer: str) -> float:
    """How much a sentence alone sounds like a change, as log-odds."""
    table = weights(MODEL)
    return UNIT * (table[MASK + 1] + sum(map(table.__getitem__, _own(newer))))


def may_change(newer: str) -> bool:
    """Whether a sentence may replace anything, whatever stands before it."""
    return newer[-1:] not in "?？؟" and likely(newer) + MOST_BESIDE >= LEAST_OF_RULE


MOST_BESIDE: Final = 3.0
"""Log-odds that what it has in common with an earlier one adds at most, but for few."""


def change(older: str, newer: str) -> float:
    """The log-odds that the later sentence ends or changes what the earlier one says."""
    pair = _pair(told(older), told(newer))
    return likely(newer) + UNIT * sum(map(weights(MODEL).__getitem__, pair - _own(newer))) if pair else -math.inf


def replaces(older: str, newer: str, *, rule: bool = False) -> bool:
    """Whether what the earlier sentence says no longer holds once the later one is said.

    ``rule``: the earlier one is a rule, which people do change in words of their own. Of any other
    sentence all but its values must be said again: few statements are taken back.
    """
    if not may_change(newer):
        return False
    sure = change(older, newer)
    if rule and sure >= LEAST_OF_RULE or not rule and sure >= LEAST:
        return not _contrasts(told(older), told(newer))
    return sure >= LEAST_SAID_AGAIN and _says_again(told(older), told(newer))


def restates(older: str, newer: str) -> bool:
    """Whether a later sentence lays down the same as a rule with another value: ``over 8000``, not ``over 4500``.

    It shares what the rule is about, names no thing of a sort that the rule does not name, and has
    another value of one sort; if it repeats the rule's own number beside, less has to be shared.
    """
    if newer[-1:] in "?？؟":
        return False
    before, after = told(older), told(newer)
    had = {token: sort for token, sort in zip(before.tokens, before.sorts, strict=True) if sort}
    has = {token: sort for token, sort in zip(after.tokens, after.sorts, strict=True) if sort}
    other = {sort for token, sort in has.items() if token not in had} & set(had.values())
    if not other or not set(has.values()) <= set(had.values()):
        return False
    about = {root for root, sort in zip(before.roots, before.sorts, strict=True) if root and not sort}
    shared = len(about.intersection(after.roots))
    again = any(token in has and had[token] in other and token[-1:].isdigit() for token in had)
    enough = shared > 0 if again else shared > 1 and 2 * shared >= len(about)
    return enough and not _contrasts(before, after)


def _says_again(before: Told, after: Told) -> bool:
    """Whether the later sentence names all that the earlier one is about, and another value of a sort."""
    about = {root for root, sort in zip(before.roots, before.sorts, strict=True) if root and not sort}
    had = {sort for sort in before.sorts if sort}
    other = any(
        sort in had and root not in before.roots for root, sort in zip(after.roots, after.sorts, strict=True)
    )
    return other and len(about) > 1 and about <= set(after.roots)


def _contrasts(before: Told, after: Told) -> bool:
    """Whether both say the same of two things: a word of one stands where the other has another."""
    ours, theirs = _placed(before), _placed(after)
    known, said = set(before.roots), set(after.roots)
    return any(
        root not in said and not known.issuperset(theirs.get(frame, known)) for frame, roots in ours.items() for root in roots
    )


def _placed(one: Told) -> dict[tuple[str, str], set[int]]:
    """The words of a sentence, but for its values, by the words on both sides of them."""
    edged = ("", *one.tokens, "")
    found: dict[tuple[str, str], set[int]] = {}
    for at, (root, sort) in enumerate(zip(one.roots, one.sorts, strict=True)):
        if root and not sort:
            found.setdefault((edged[at], edged[at + 2]), set()).add(root)
    return found
