"""Prints what survives compaction: evidence, answers and identifiers, per strategy and budget.

    python -m benchmarks.survival FOLDER [--budget 0.1 0.2 0.4] [--only tau locomo]

FOLDER holds `locomo`, `bfcl_memory`, `tau`, `sgd` and `coding` as `.jsonl.gz`, one conversation a
line. Every number is a survival measure of strings or stems; no model reads any output. The metrics
are those of `turnmill evaluate` (`turnmill_cli.evaluate.metrics`), which compares more; this
prints three decimals of the extractive summarizer and two baselines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnmill.contract.names import Seq
from turnmill_cli.evaluate import methods
from turnmill_cli.evaluate.entities import CODE, TAU, VALUES, by_pattern, call_values
from turnmill_cli.evaluate.metrics import Mean, associated, halves, needed, score_question
from turnmill_cli.evaluate.survival import DataSet, survival
from turnmill_cli.evaluate.word_matching import (
    Record,
    kept_by_seq,
    rendered,
    stands_in,
    stems,
    text_of,
)
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.tokens import counter_for

__all__ = [
    "STRATEGIES",
    "Mean",
    "Record",
    "associated",
    "by_pattern",
    "call_values",
    "chat",
    "extractive",
    "halves",
    "kept_by_seq",
    "lead",
    "load",
    "measure",
    "needed",
    "rendered",
    "score_question",
    "stems",
    "text_of",
    "window",
]

Strategy = Callable[[Sequence[Record], int], str]

_COUNTER = counter_for("o200k_base")
_count: Callable[[str], int] = _COUNTER.count
_TAU_ENTITY = TAU
_CODE_ENTITY = CODE
_has = stands_in


def window(records: Sequence[Record], budget: int) -> str:
    """The newest whole messages that fit, then as much of the next one's end as fits."""
    return methods.window(records, budget, _count)


def lead(records: Sequence[Record], budget: int) -> str:
    """First sentences, oldest message first, while they fit; then second sentences, and so on."""
    return methods.lead(records, budget, _count)


def extractive(records: Sequence[Record], budget: int) -> str:
    """The summarizer under test."""
    asked = tuple((Seq(seq), dict(message)) for seq, message in records)
    request = SummaryRequest(previous="", records=asked, budget_tokens=budget)
    return digest_of(request, _COUNTER).text(budget)


STRATEGIES: dict[str, Strategy] = {"window": window, "lead": lead, "extract": extractive}


def chat(
    conversations: Sequence[Mapping[str, Any]], strategy: Strategy, share: float
) -> dict[str, Mean]:
    """ECR, EV, AER and any over every question with evidence (LoCoMo: categories 1 to 4)."""
    return measure("locomo", conversations, strategy, share)


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The conversations of one file."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure(
    name: str, conversations: Sequence[Mapping[str, Any]], strategy: Strategy, share: float
) -> dict[str, Mean]:
    """The metrics that belong to the data set called `name`; no text exceeds its budget."""
    data = DataSet(name, tuple(conversations), VALUES.get(name))
    return survival(data, lambda parts, budget: strategy(parts[0], budget), share, _count)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one row per data set and strategy, one column per metric and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--strategy", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    names = ["locomo", "bfcl_memory", "tau", "sgd", "coding"]
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    options = parser.parse_args(argv)
    shares = options.budget
    print(f"budgets: {' / '.join(f'{share:.0%}' for share in shares)} of the compacted tokens")
    for name in options.only:
        conversations = load(options.folder, name)
        for strategy in options.strategy:
            started = time.perf_counter()
            results = [measure(name, conversations, STRATEGIES[strategy], s) for s in shares]
            took = time.perf_counter() - started
            cells = (f"{m} {'/'.join(str(r[m]) for r in results)}" for m in results[0])
            size = next(iter(results[0].values())).n
            print(f"{name:<12} {strategy:<8} n={size:<5} {'  '.join(cells)}  {took:.1f}s")


if __name__ == "__main__":
    main()
