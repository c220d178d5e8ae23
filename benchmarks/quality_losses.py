"""Prints whether the quality score falls as a context loses what it held.

    python -m benchmarks.quality_losses FOLDER [--only tau locomo] [--limit 20]

FOLDER holds the recorded conversations of `benchmarks.survival`. The first 60 % of each is
compacted to a share of its tokens. Then lines are taken out of the text at random, a tenth at a
time, and each text is scored. The table shows the mean score by how much is left, Spearman's rho
between both over all texts of a conversation, and the score of the next conversation's text.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

from benchmarks import survival
from turnmill.contract.names import Seq
from turnmill_cli.evaluate.measuring import Record, halves, text_of
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.reading.score import kept, lines_of
from turnmill_worker.tokens import counter_for

NAMES = ("tau", "coding", "sgd", "bfcl_memory", "locomo")
SHARE = 0.2
STEPS = 10
COUNTER = counter_for("o200k_base")


class Compacted:
    """The first part of a conversation, and the lines that stand for it."""

    def __init__(self, records: Sequence[Record]) -> None:
        asked = tuple((Seq(seq), dict(message)) for seq, message in records)
        budget = int(SHARE * sum(COUNTER.count(text_of(each)) for _, each in records))
        request = SummaryRequest(previous="", records=asked, budget_tokens=budget)
        self.digest = digest_of(request, COUNTER)
        self.lines = self.digest.text(budget).split("\n")

    def score(self, lines: Sequence[str]) -> float:
        """The share of worth that these lines still have."""
        return kept(self.digest.units, lines_of(lines), self.digest.worths).everything

    def scores(self) -> list[float]:
        """The share with all of its lines, nine tenths of them, and so on to none."""
        lines = random.Random(1).sample(self.lines, len(self.lines))
        return [self.score(lines[len(lines) * lost // STEPS :]) for lost in range(STEPS + 1)]


def rho(values: Sequence[float]) -> float:
    """Spearman's rank correlation between values and their places, the largest first."""
    n = len(values)
    order = sorted(range(n), key=lambda at: -values[at])
    ranks = {at: rank for rank, at in enumerate(order)}
    return 1 - 6 * sum((ranks[at] - at) ** 2 for at in range(n)) / (n * (n * n - 1))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality_losses")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--limit", type=int, default=20)
    options = parser.parse_args()
    columns = [*(f"{10 * at} %" for at in range(STEPS, -1, -1)), "rho", "another's"]
    print(f"| lines left | {' | '.join(columns)} |")
    print(f"|---|{'--:|' * len(columns)}")
    for name in options.only:
        heads = (halves(each["messages"])[0] for each in survival.load(options.folder, name))
        some = [Compacted(head) for head in islice(heads, options.limit) if len(head) >= STEPS]
        found = [each.scores() for each in some]
        means = [fmean(column) for column in zip(*found, strict=True)]
        others = [each.score(other.lines) for each, other in pairwise([*some, some[0]])]
        shown = [*means, fmean(map(rho, found)), fmean(others)]
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in shown)} |")


if __name__ == "__main__":
    main()
