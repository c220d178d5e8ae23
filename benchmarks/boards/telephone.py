"""The telephone game: the same turns in one compaction and in many, at one budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from benchmarks.boards.common import Sheet, cell, each_shown
from benchmarks.boards.squeezed import Played
from benchmarks.survival import BASELINES, method, survival
from turnmill_cli.evaluate.measuring import DataSet, Mean, MeteredSummarizer

ROUNDS: Final = (1, 2, 5, 10, 20, 50, 100)

_METRICS: Final = ("ECR", "AER", "FUR")


def telephone_board(
    data: DataSet,
    share: float,
    metered: MeteredSummarizer,
    rounds: Sequence[int] = ROUNDS,
) -> Sheet:
    """Survival by how many compactions the turns went through; baselines know only one."""
    rows: dict[str, list[Mean]] = {}
    made = []
    count = metered.counter.count
    for n in each_shown(f"rounds of {data.name}", rounds):
        played = Played(metered)
        # Nothing is compacted before there are more turns than the budget has room for.
        parts = n if n == 1 else math.ceil(n / (1 - share))
        for metric, mean in survival(data, played, share, count, rounds=parts).items():
            rows.setdefault(f"rolling {metric}", []).append(mean)
        made.append(f"{played.compactions.value or 0:.0f}")
    for name in BASELINES:
        for metric, mean in survival(data, method(name, metered), share, count).items():
            rows[f"{name} {metric}"] = [mean] * len(rounds)
    sheet = Sheet(f"{data.name}: survival at {share:.0%} by compactions", ["", *map(str, rounds)])
    sheet.rows += [
        (name, *map(cell, means)) for name, means in rows.items() if name.endswith(_METRICS)
    ]
    sheet.caption = f"compactions there were, mean: {', '.join(made)}"
    return sheet
