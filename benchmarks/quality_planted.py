"""Prints whether the quality score sees a lost rule, an old value and what nobody can read.

    python -m benchmarks.quality_planted FOLDER [--only tau locomo]

FOLDER is that of `quality_correlation`. In each of its conversations a rule, a value and, later, a
newer value are planted. The extractive summary is scored as it is and with one or several losses:
without the rule, with the old value for the newer one, with its words shuffled. The table shows
mean scores, the share that passes the default threshold, and Spearman's rho between the score and
what is left of the three.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from benchmarks import survival
from benchmarks.quality_correlation import NAMES, WEIGHTS, Case, cases, count, rho
from turnmill.contract.context import EMPTY
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill.contract.rules import Rule
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.score import Scorer
from turnmill_worker.compaction.quality.trust import DEFAULT_THRESHOLD, Trust

RULE = Rule(seq=Seq(0), place=1, text="Never email me before noon.")
OLD, NEW = "$3,150", "$4,720"
PLANTED = (
    f"{RULE.text} And the budget for the reception is {OLD}.",
    f"By the way, we raised the reception budget to {NEW}.",
)
LOSSES = ("rule", "newest value", "order of words")
SHARES = (0.2, 0.4)

Score = tuple[str, float, int]
"""What was lost, the score, and how many of the three are left."""


def planted(case: Case) -> Records:
    """The covered turns with the rule and the value early, and the newer value late."""
    records = list(case.covered)
    at = len(records)
    for place, text in ((3 * at // 4, PLANTED[1]), (at // 4, PLANTED[0])):
        opens = (n for n in range(place, at) if records[n][1]["role"] != "tool")
        records.insert(next(opens, at), (Seq(0), {"role": "user", "content": text}))
    return Records((Seq(seq), message) for seq, (_, message) in enumerate(records, 1))


def summary_without(text: str, lost: Sequence[str]) -> str:
    """The summary after these losses."""
    lines = [line for line in text.split("\n") if OLD not in line and NEW not in line]
    said = OLD if "newest value" in lost else NEW
    text = "\n".join([*lines, f"The reception budget is {said}."])
    if "order of words" in lost:
        words = re.sub(r"^\d+ \w+[^:\n]*: ", "", text, flags=re.MULTILINE).split()
        text = " ".join(random.Random(3).sample(words, len(words)))
    return text


def scores(case: Case) -> Iterator[Score]:
    """The score of a conversation's summary after each combination of losses."""
    covered = planted(case)
    tokens = count(survival.rendered(covered))
    scorer = Scorer(
        covered=covered,
        previous=[],
        tail=case.tail,
        kept_turns=3,
        wanted_turns=3,
        turns=len(covered) + 3,
        compactions=1,
        weights=WEIGHTS,
        trust=Trust(covered.units, rules=[RULE]),
    )
    for share in SHARES:
        whole = survival.extractive(covered, int(share * tokens))
        for many in range(len(LOSSES) + 1):
            for lost in combinations(LOSSES, many):
                shown = {
                    "summary": summary_without(whole, lost),
                    "rules": () if "rule" in lost else (RULE,),
                }
                head = render_head(EMPTY.model_copy(update=shown))
                yield " + ".join(lost) or "nothing", scorer.score(head).score, len(LOSSES) - many


def report(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """One block for each data set."""
    for name in names:
        found = [list(scores(case)) for case in cases(name, survival.load(folder, name))]
        yield f"\n{name}: {len(found)} conversations"
        by_loss: Mapping[str, list[float]] = defaultdict(list)
        for lost, score, _ in (one for own in found for one in own):
            by_loss[lost].append(score)
        for lost, own_scores in by_loss.items():
            passing = fmean(score >= DEFAULT_THRESHOLD for score in own_scores)
            yield f"lost: {lost:<40} mean {fmean(own_scores):.2f}  passes {passing:.0%}"
        within = [rho([(score, float(left)) for _, score, left in own]) for own in found]
        known = [value for value in within if value is not None]
        yield f"rho with what is left, within conversations: {fmean(known):.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one block per data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args(argv)
    for line in report(options.folder, options.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
