"""What becomes of passages of which a value holds no longer: left out, marked, or worth less."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from turnmill_worker.compaction.pool.unit_worth import Worth
from turnmill_worker.old_reading.units import LABEL, Unit
from turnmill_worker.old_reading.updates import Newer, marked
from turnmill_worker.old_reading.words import WORD, concepts_of

__all__ = ["all_marked", "by_news", "saying_nothing_else", "with_news"]

_PAST: Final = 0.25
"""What a sentence is worth once a newer one has replaced it."""

_NEWEST: Final = 2.0
"""What a sentence is worth that says it replaces one: what changes is what is asked for again."""

_FEW_WORDS: Final = 16
"""A longer sentence says something besides, even if that is no value."""


def saying_nothing_else(
    units: Sequence[Unit], past: Mapping[int, Sequence[Newer]]
) -> frozenset[int]:
    """Sentences whose only value holds no longer: the archive has them, a summary needs them not.

    A sentence that states another value, which the newer sentences do not, stays and is marked.
    """
    return frozenset(
        at for at, newer in past.items() if units[at].is_prose and _is_empty(at, newer, units)
    )


def _is_empty(at: int, newer: Sequence[Newer], units: Sequence[Unit]) -> bool:
    said = LABEL.sub("", units[at].text, count=1)
    for value, *_ in newer:
        said = said.replace(value, " ", 1)
    if len(said.split()) > _FEW_WORDS:
        return False
    known = " ".join(units[one.unit].text for one in newer)
    stated = set(concepts_of(known, prose=True))
    # A word that opens the sentence is no name.
    said = said[:1].lower() + said[1:]
    return all(one[0] == WORD or one in stated for one in concepts_of(said, prose=True))


def all_marked(texts: Sequence[str], past: Mapping[int, Sequence[Newer]]) -> list[str]:
    """The texts, where a value holds no longer with the turn that states the newer one."""
    return [marked(text, past[at]) if at in past else text for at, text in enumerate(texts)]


def by_news(
    worth: Worth, units: Sequence[Unit], past: Container[int], news: Container[int]
) -> Worth:
    """The same worth: less for sentences that hold no longer, more for those that hold instead."""
    factors = [
        factor * _PAST if at in past and units[at].is_prose else factor
        for at, factor in enumerate(worth.factors)
    ]
    # A standing is kept, so news stay worth more when what they replaced has left the pool.
    fresh = {at for at, unit in enumerate(units) if at in news and not unit.standing}
    return replace(
        worth,
        factors=tuple(with_news(factors, fresh)),
        standings=tuple(with_news(worth.standings, fresh)),
    )


def with_news(factors: Iterable[float], news: Container[int]) -> list[float]:
    """The same factors, but higher for units that are news."""
    return [factor * _NEWEST if at in news else factor for at, factor in enumerate(factors)]
