"""What of the covered turns can still be read: checked passage by passage, whoever wrote the text.

A passage, or the fields of one record, is worth what the words and values in it are worth beside
each other. It is still there by the share of that worth which one line of the text has together:
a bare list of numbers keeps no record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from turnmill_worker.reading.passages import Reading, sentences
from turnmill_worker.reading.words import IDENTIFIERS, KIND, PLAIN, concepts

__all__ = ["Kept", "Unit", "kept", "lines_of", "stale", "units_of", "weightiest"]

_LOOKED_UP: Final = 3
"""Words and values of a unit by which lines that may state it are found: those worth most."""

_LINES: Final = 8
"""So many lines at most are compared with a unit for each of those."""


_NEARLY_ALL: Final = 0.9

_ABOUT: Final = 2
"""Words that two sentences share at least which are about the same."""


class Unit(NamedTuple):
    """What is kept or lost: a sentence, or the fields of one record.

    Attributes:
        ids: what it says.
        worth: of all that together.
    """

    ids: Collection[int]
    worth: float


class Kept(NamedTuple):
    """Shares of worth that can still be read, 0 to 1; 1 of nothing.

    Attributes:
        everything: of all units.
        matters: of those that say what was spoken of last.
    """

    everything: float
    matters: float


def units_of(readings: Iterable[Reading], worths: Mapping[int, float]) -> list[Unit]:
    """What readings say, record by record and sentence by sentence."""
    said: list[Collection[int]] = []
    for reading in readings:
        records: dict[int, set[int]] = {}
        for passage in reading.passages:
            if passage.field:
                own = records.get(passage.group)
                if own is None:
                    own = records[passage.group] = set(reading.labels[passage.group][2])
                own.update(passage.ids)
            else:
                said.append(passage.ids)
        said += records.values()
    # Words that say nothing are worth nothing.
    units = [Unit(ids, sum(map(worths.__getitem__, ids))) for ids in said]
    return [unit for unit in units if unit.worth > 0]


def lines_of(texts: Iterable[str]) -> list[frozenset[int]]:
    """What each line of some texts says."""
    return [_said_in(line) for text in texts for line in text.split("\n") if line.strip()]


@lru_cache(maxsize=2048)
def _said_in(line: str) -> frozenset[int]:
    """What a line says: most lines of a context stand in the next one, too."""
    return frozenset(concepts(line, prose=False))


def kept(
    units: Sequence[Unit],
    lines: Sequence[frozenset[int]],
    worths: Mapping[int, float],
    now: Iterable[int] = (),
) -> Kept:
    """How much of the units these lines still say; ``now``: what was spoken of last."""
    by_id: dict[int, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        for number in line:
            by_id[number].append(at)
    total = still = spoken = spoken_still = 0.0
    about = frozenset(now)
    said = {number: worth for number in by_id if (worth := worths.get(number))}
    for unit in weightiest(units):
        share = _share(unit, lines, by_id, said)
        total += unit.worth
        still += unit.worth * share
        if not about.isdisjoint(unit.ids):
            spoken += unit.worth
            spoken_still += unit.worth * share
    return Kept(
        still / total if total else 1.0,
        spoken_still / spoken if spoken else 1.0,
    )


def weightiest(units: Sequence[Unit]) -> list[Unit]:
    """The units that hold nearly all worth together: the many small ones change no score."""
    left = _NEARLY_ALL * sum(unit.worth for unit in units)
    found = []
    for unit in sorted(units, key=lambda unit: -unit.worth):
        if left <= 0:
            break
        left -= unit.worth
        found.append(unit)
    return found


def _share(
    unit: Unit,
    lines: Sequence[frozenset[int]],
    by_id: Mapping[int, Sequence[int]],
    said: Mapping[int, float],
) -> float:
    """The share of a unit that one line has; ``said``: what the words of all lines are worth."""
    stated = [(said[each], each) for each in unit.ids if each in said]
    stated.sort(reverse=True)
    most = sum([worth for worth, _ in stated])
    best, seen = 0.0, set()
    for _, each in stated[:_LOOKED_UP]:
        for at in by_id[each][:_LINES]:
            if at not in seen and best < most:
                seen.add(at)
                line = lines[at]
                best = max(best, sum([worth for worth, own in stated if own in line]))
    return min(best / unit.worth, 1.0)


def stale(text: str, past: Mapping[str, str]) -> int:
    """How many sentences of a text state as current what a later sentence changed.

    ``past``: sentences that hold no more, each with the one that changed it. A sentence states one
    of them if it says at least half of what both are about, the old value, and not the new one.
    """
    changed = [_Changed.of(older, newer) for older, newer in past.items()]
    old: frozenset[int] = frozenset().union(*[each.old for each in changed])
    said = [
        frozenset(concepts(sentence, prose=False))
        for line in text.split("\n")
        if "(changed in turn" not in line and not old.isdisjoint(_said_in(line))
        for sentence in sentences(line)
    ]
    return sum(each.stands_in(ids) for each in changed for ids in said)


class _Changed(NamedTuple):
    """What a sentence said that was changed, what stands in its place, and what both are about."""

    old: frozenset[int]
    new: frozenset[int]
    about: frozenset[int]

    @classmethod
    def of(cls, older: str, newer: str) -> _Changed:
        before, after = _said_in(older), _said_in(newer)
        return cls(
            frozenset([each for each in before - after if each & KIND in IDENTIFIERS]),
            after - before,
            frozenset([each for each in before & after if each & KIND not in _NO_SUBJECT]),
        )

    def stands_in(self, ids: frozenset[int]) -> bool:
        """Whether a sentence states it as current."""
        return (
            not self.old.isdisjoint(ids)
            and self.new.isdisjoint(ids)
            and len(self.about & ids) >= max(_ABOUT, len(self.about) / 2)
        )


_NO_SUBJECT: Final = frozenset({*IDENTIFIERS, PLAIN})
