"""Prints whether the quality score falls as a context loses what it held.

    python -m benchmarks.quality_losses FOLDER [--only tau locomo] [--limit 20]

FOLDER holds the recorded conversations of `benchmarks.survival`. The first 60 % of each is
compacted to a share of its tokens. Then lines are taken out of the text at random, a tenth at a
time, and each text is scored. The table shows the mean score by how much is left, and Spearman's
rho between both over all texts of a conversation.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks import survival
from turnmill.contract.names import Seq
from turnmill_cli.evaluate.metrics import halves
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.reading.score import kept, lines_of
from turnmill_worker.tokens import counter_for

NAMES = ("tau", "coding", "sgd", "bfcl_memory", "locomo")
SHARE = 0.2
STEPS = 10
COUNTER = counter_for("o200k_base")


def scores(records: Sequence[survival.Record]) -> list[float]:
    """The share of worth that is left with all lines, nine tenths of them, and so on to none."""
    asked = tuple((Seq(seq), dict(message)) for seq, message in records)
    tokens = sum(COUNTER.count(survival.text_of(message)) for _, message in records)
    budget = int(SHARE * tokens)
    digest = digest_of(SummaryRequest(previous="", records=asked, budget_tokens=budget), COUNTER)
    lines = digest.text(budget).split("\n")
    random.Random(1).shuffle(lines)
    units, worths = digest.units(), digest.worths
    left = (lines[len(lines) * lost // STEPS :] for lost in range(STEPS + 1))
    return [kept(units, lines_of(some), worths).everything for some in left]


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
    print(f"| lines left | {' | '.join(f'{10 * at} %' for at in range(STEPS, -1, -1))} | rho |")
    print(f"|---|{'--:|' * (STEPS + 2)}")
    for name in options.only:
        by_loss: dict[int, list[float]] = defaultdict(list)
        ordered = []
        for conversation in survival.load(options.folder, name)[: options.limit]:
            head, _ = halves(conversation["messages"])
            if len(head) < STEPS:
                continue
            found = scores(head)
            ordered.append(rho(found))
            for lost, share in enumerate(found):
                by_loss[lost].append(share)
        cells = " | ".join(f"{fmean(by_loss[lost]):.2f}" for lost in range(STEPS + 1))
        print(f"| {name} | {cells} | {fmean(ordered):.2f} |")


if __name__ == "__main__":
    main()
