"""What share of the worth of what a summary covers can still be read in it."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.select import Pool


def score(pool: Pool, kept: Sequence[int], covered: Sequence[Reading]) -> float:
    """The share: each value and word counts once, as what it was worth when nothing was said yet."""
    worths = pool.worths
    readable: set[int] = set()
    for at in kept:
        readable.update(pool.passages[at].ids)
        readable.update(pool.readings[pool.homes[at]].labels[pool.passages[at].group][2])
    whole: set[int] = set()
    for each in covered:
        for _, _, ids in each.labels:
            whole.update(ids)
        for passage in each.passages:
            whole.update(passage.ids)
    total = sum(worths.get(each, 0.0) for each in whole)
    return sum(worths.get(each, 0.0) for each in whole & readable) / total if total else 1.0
