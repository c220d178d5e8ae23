"""Whether two statements are of the same thing, and one of them replaces the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from turnmill_worker.old_reading.units import Source
from turnmill_worker.old_reading.updates.claims import Claim
from turnmill_worker.old_reading.updates.subject import Subject

__all__ = ["Weights", "can_replace", "near", "replaces"]

_RARE: Final = 0.6
_ALIKE: Final = 0.34
_COUNTED: Final = 0.25
_THE_SAME: Final = 0.45
"""Least shares of what a statement says that it has in common with what it replaces: where it is
said to be new; where, beside that, the same is counted; and where the same is only counted anew."""

_SURE: Final = 100.0
"""What is said to be replaced is rather meant than anything that is only alike."""


class Weights:
    """How much a shared word tells, by how few statements hold it."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._weights: dict[str, float] = {}
        self._wholes: dict[int, tuple[Subject, float]] = {}
        self._times = Counter(chain.from_iterable([claim.subject.roots for claim in claims]))
        self._total = len(claims) + 1
        self.rare = _RARE * math.log(1 + self._total / 2)

    def of(self, root: str) -> float:
        """The weight of a word."""
        weight = self._weights.get(root)
        if weight is None:
            weight = self._weights[root] = math.log(1 + self._total / self._times.get(root, 1))
        return weight

    def whole(self, subject: Subject) -> float:
        """The weight of all that a statement says."""
        known = self._wholes.get(id(subject))
        if known is None:
            whole = sum(self.of(root) * near for root, near in subject.nearness.items())
            # Held with it, so that no other subject gets its id.
            known = self._wholes[id(subject)] = subject, whole
        return known[1]


def can_replace(newer: Claim) -> bool:
    """Whether a statement can replace any at all: most cannot, and are compared with none."""
    if newer.new or newer.was:
        return True
    if newer.adds or newer.place.source is not Source.USER:
        return False
    return newer.is_so or (newer.own and bool(newer.value.counted))


def replaces(newer: Claim, older: Claim, weights: Weights) -> float:
    """How sure it is that one statement replaces another; 0 for not enough."""
    if newer.value.exact == older.value.exact or _counts_differ(newer, older):
        return 0.0
    if newer.place.line == older.place.line and not newer.was:
        return 0.0
    if newer.was:
        if newer.was != older.value.exact.split()[0] and newer.was != older.value.exact:
            return 0.0
        shared, _ = _alike(newer, older, weights)
        return shared and shared + _SURE
    if newer.new:
        shared, cover = _alike(newer, older, weights)
        least = _COUNTED if newer.value.counted & older.value.counted else _ALIKE
        return shared * cover if cover >= least and shared >= weights.rare else 0.0
    least = _least_again(newer, older)
    shared, cover = _alike(newer, older, weights) if least <= 1 else (0.0, 0.0)
    return shared * cover if cover >= least else 0.0


def _least_again(newer: Claim, older: Claim) -> float:
    """The share in common from which on a user states the same anew, with no word that it is news.

    More than 1 where he cannot.
    """
    if newer.adds or (newer.context and older.context and newer.context != older.context):
        return 2.0
    if newer.place.source is not Source.USER or older.place.source is not Source.USER:
        return 2.0
    this, that = newer.subject.nearness, older.subject.nearness
    if len(this) > 1 and newer.is_so and older.is_so and this.keys() == that.keys():
        return 0.0
    return _THE_SAME if newer.own and newer.value.counted & older.value.counted else 2.0


def near(same: Claim, older: Claim, newer: Claim, weights: Weights) -> bool:
    """Whether another statement of the old value is of the same thing."""
    if _counts_differ(same, older):
        return False
    return any(_alike(same, one, weights)[0] >= weights.rare for one in (older, newer))


def _counts_differ(newer: Claim, older: Claim) -> bool:
    """Whether two numbers count different things."""
    if newer.value.kind != "count":
        return False
    one, other = newer.value.counted, older.value.counted
    if one and other:
        return not one & other or bool(one - other and other - one)
    if not one and not other:
        return not newer.was
    bare, counted = (newer, other) if not one else (older, one)
    return bool(counted) and not counted & set(bare.subject.roots)


def _alike(newer: Claim, older: Claim, weights: Weights) -> tuple[float, float]:
    """The weight of what two statements share, and its share of what the shorter one says."""
    this, that = newer.subject, older.subject
    mine, theirs = this.nearness, that.nearness
    both = mine.keys() & theirs.keys()
    if not both or _apart(newer, older):
        return 0.0, 0.0
    same = {root for root in both if not _differ(root, newer, older)}
    if same != both and same <= newer.value.counted:
        # The read pool and the write pool: that both count connections makes them not one.
        return 0.0, 0.0
    common = sum(
        weights.of(root) * math.sqrt(mine[root] * theirs[root])
        for root in this.roots
        if root in same
    )
    whole = min(weights.whole(this), weights.whole(that))
    return common, min(1.0, common / whole) if common else 0.0


def _apart(newer: Claim, older: Claim) -> bool:
    """Whether names, identifiers or words like "daily" say that they are of different things."""
    this, that = newer.subject, older.subject
    if this.names and that.names and not this.names & that.names:
        return True
    others = newer.value.kind != "code" and newer.codes and older.codes
    if others and not newer.codes & older.codes:
        return True
    both = this.contrasts.keys() & that.contrasts.keys()
    return any(this.contrasts[group] != that.contrasts[group] for group in both)


def _differ(root: str, newer: Claim, older: Claim) -> bool:
    """Whether a shared word names two things: the budget for food and the budget for travel."""
    this, that = newer.subject, older.subject
    owner, other = this.owners.get(root), that.owners.get(root)
    if owner and other and owner != other and newer.place.source is older.place.source:
        return True
    mine, theirs = this.which(root), that.which(root)
    return bool(mine and theirs and mine.isdisjoint(that.roots) and theirs.isdisjoint(this.roots))
