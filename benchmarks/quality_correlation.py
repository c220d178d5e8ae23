"""Prints how closely the quality score follows what survives a compaction.

    python -m benchmarks.quality_correlation FOLDER [--only tau locomo]

FOLDER holds `locomo`, `bfcl_memory`, `tau`, `sgd` and `coding` as `.jsonl.gz`, as in `survival`.
The first 60 % of each conversation are compacted in many ways, the next messages are the tail,
and what the rest asks for is measured by `survival`, whose patterns and stemmer the score does not
know. Spearman's rho: over all compactions; within conversations; the same for the summary's mere
length; the same without the extractive summarizer's, which weighs facts much as the score does;
and within groups of one conversation and one length.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import survival
from turnmill.contract.context import EMPTY, JsonMessage, Receipt
from turnmill.contract.names import Seq
from turnmill.contract.quality_weights import QualityWeights
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.score import Quality, Scorer

NAMES = ["tau", "sgd", "coding", "locomo", "bfcl_memory"]
BOILERPLATE = "The conversation continued."
WEIGHTS = QualityWeights()
BUDGETS = (0.05, 0.1, 0.2, 0.4, 0.8)
MATCHED = ("extract", "cut off", "newest", "lead", "random", "other session")
METRICS = ("FUR", "AFUR", "ECR", "AER")

Record = tuple[Seq, JsonMessage]
count: Callable[[str], int] = survival._count


@dataclass(frozen=True)
class Case:
    """A conversation cut in three: what is compacted, what is kept, and what comes after."""

    conversation: Mapping[str, Any]
    covered: Records
    tail: list[JsonMessage]
    future: list[JsonMessage]


@dataclass(frozen=True)
class Row:
    """One compaction of one conversation."""

    case: int
    way: str
    budget: float
    length: float
    quality: Quality
    metrics: dict[str, float] = field(default_factory=dict)


def cases(name: str, conversations: Sequence[Mapping[str, Any]]) -> list[Case]:
    """The conversations long enough to compact, 60 % of each to be covered."""
    found = []
    for conversation in conversations:
        if name in {"locomo", "bfcl_memory"}:
            numbered = list(enumerate(conversation["messages"]))
            at = int(0.6 * len(numbered))
            head, rest = numbered[:at], [message for _, message in numbered[at:]]
        else:
            head, rest = survival.halves(conversation["messages"])
        end = 3
        while end < len(rest) and rest[end]["role"] == "tool":
            end += 1
        covered = Records((Seq(seq), dict(message)) for seq, message in head)
        if covered and count(survival.rendered(covered)) >= 400:
            found.append(Case(conversation, covered, rest[:end], rest[end:]))
    return found


def summaries(found: Sequence[Case], at: int) -> Iterator[tuple[str, float, str]]:
    """The ways to stand for what one case covers: their names, budgets and texts."""
    case = found[at]
    tokens = count(survival.rendered(case.covered))
    for share in BUDGETS:
        budget = int(share * tokens)
        yield "extract", share, survival.extractive(case.covered, budget)
        yield "cut off", share, cut_off(case.covered, budget)
        if 0.1 <= share <= 0.4:
            yield "newest", share, survival.window(case.covered, budget)
            yield "lead", share, survival.lead(case.covered, budget)
            yield "random", share, random_sentences(case.covered, budget)
    lines = survival.extractive(case.covered, int(0.4 * tokens)).split("\n")
    for gone in (0.25, 0.5, 0.75):
        lost = set(random.Random(at).sample(range(len(lines)), int(gone * len(lines))))
        left = [line for number, line in enumerate(lines) if number not in lost]
        yield f"extract, {gone:.0%} of lines lost", 0.4, "\n".join(left)
    if other := _of_somebody_else(found, at):
        yield "other session", 0.4, survival.extractive(other.covered, int(0.4 * tokens))
    yield "identifiers only", 0.0, identifiers(case.covered)
    yield "boilerplate", 0.0, BOILERPLATE
    yield "receipt", 0.0, ""


def _of_somebody_else(found: Sequence[Case], at: int) -> Case | None:
    own = _owner(found[at])
    others = (found[(at + step) % len(found)] for step in range(1, len(found)))
    return next((case for case in others if _owner(case) != own), None)


def _owner(case: Case) -> str:
    """Runs of one tau task share customer and orders: no other session in any useful sense."""
    group = str(case.conversation.get("group"))
    return group if group.startswith("tau-") else str(case.conversation["session_id"])


def cut_off(records: Sequence[Record], budget: int) -> str:
    """The transcript from its beginning, as far as the budget goes."""
    text = "\n".join(_line(record) for record in records)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= budget else (low, middle - 1)
    return text[:low]


def _line(record: Record) -> str:
    seq, message = record
    text = " ".join(survival.text_of(message).split())
    return f"{seq} {message.get('name') or message['role']}: {text}"


def random_sentences(records: Sequence[Record], budget: int) -> str:
    """Sentences drawn without looking, in order."""
    rows = [
        f"{seq} {message.get('name') or message['role']}: {sentence}"
        for seq, message in records
        for sentence in survival.text_of(message).replace("\n", " ").split(". ")
        if sentence.strip()
    ]
    kept: list[int] = []
    for at in random.Random(5).sample(range(len(rows)), len(rows)):
        cost = count(rows[at]) + 1
        if cost <= budget:
            budget -= cost
            kept.append(at)
    return "\n".join(rows[at] for at in sorted(kept))


def identifiers(records: Sequence[Record]) -> str:
    """Every word with a digit in it, one a line, without what it is."""
    words = (w.strip('",.:{}[]()') for r in records for w in survival.text_of(r[1]).split())
    return "\n".join(dict.fromkeys(w for w in words if any(c.isdigit() for c in w)))


def rows(name: str, conversations: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Every way of compacting every conversation, scored and measured."""
    found = cases(name, conversations)
    measured = []
    for at, case in enumerate(found):
        tokens = count(survival.rendered(case.covered))
        for way, budget, text in summaries(found, at):
            receipt = Receipt(by="window", first_seq=1, last_seq=2, turns=2, tokens=tokens)
            shown = {"summary": text, "receipts": () if text else (receipt,)}
            stored = EMPTY.model_copy(update=shown)
            quality = Scorer(
                covered=case.covered,
                previous=[],
                tail=case.tail,
                kept_turns=3,
                wanted_turns=3,
                turns=len(case.covered) + 3,
                compactions=1,
                weights=WEIGHTS,
            ).score(render_head(stored))
            metrics = _metrics(name, case, text)
            measured.append(Row(at, way, budget, count(text) / tokens, quality, metrics))
    return measured


def _metrics(name: str, case: Case, text: str) -> dict[str, float]:
    if name in {"locomo", "bfcl_memory"}:
        return _answers(case, text)
    find = survival.by_pattern(survival._CODE_ENTITY if name == "coding" else survival._TAU_ENTITY)

    def uses(message: Mapping[str, Any]) -> set[str]:
        if name == "sgd":
            return set(survival.call_values(message))
        return {value.lower() for (_, value), _ in find(survival.text_of(message))}

    system = [m for m in case.conversation["messages"] if m["role"] == "system"]
    seen = "\n".join(survival.text_of(m) for m in (*system, *case.tail)).lower()
    sources = [survival.text_of(message) for _, message in case.covered]
    wanted = survival.needed("\n".join(sources).lower(), case.future, seen, uses)
    if not wanted:
        return {}
    present = {value for value in wanted if survival._has(text.lower(), value)}
    near = sum(survival.associated(v, text, sources, find) for v in sorted(present))
    return {"FUR": len(present) / len(wanted), "AFUR": near / len(wanted)}


def _answers(case: Case, text: str) -> dict[str, float]:
    texts = [survival.text_of(message) for _, message in case.covered]
    kept = survival.kept_by_seq(text)
    means = {"ECR": survival.Mean(), "EV": survival.Mean(), "AER": survival.Mean()}
    for question in case.conversation.get("qa") or ():
        inside = question["evidence"] and max(question["evidence"]) < len(texts)
        if inside and question.get("category", 1) in {1, 2, 3, 4}:
            survival.score_question(question, texts, kept, means)
    return {name: means[name].total / means[name].n for name in ("ECR", "AER") if means[name].n}


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal values share theirs."""
    places: dict[float, list[int]] = defaultdict(list)
    for place, value in enumerate(sorted(values)):
        places[value].append(place)
    return [fmean(places[value]) for value in values]


def rho(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; None where one side never changes."""
    if len(pairs) < 3:
        return None
    one, other = (ranks(side) for side in zip(*pairs, strict=True))
    middle = (len(pairs) - 1) / 2
    spread = sum((x - middle) ** 2 for x in one) * sum((y - middle) ** 2 for y in other)
    shared = sum((x - middle) * (y - middle) for x, y in zip(one, other, strict=True))
    return shared / math.sqrt(spread) if spread else None


def _mean_rho(
    measured: Sequence[Row], metric: str, of: Callable[[Row], float], *, matched: bool = False
) -> str:
    """The mean rho within conversations, or within conversations and budgets."""
    groups: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for row in measured:
        if not matched:
            groups[row.case].append((of(row), row.metrics[metric]))
        elif row.way in MATCHED and row.budget in {0.1, 0.2, 0.4}:
            groups[row.case, row.budget].append((of(row), row.metrics[metric]))
    found = [value for pairs in groups.values() if (value := rho(pairs)) is not None]
    return f"{fmean(found):.2f}" if found else "-"


def correlation(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Mean scores by way of compacting, then the correlations."""
    for name in names:
        measured = rows(name, survival.load(folder, name))
        yield f"\n{name}: {len({row.case for row in measured})} conversations"
        for way, budget in dict.fromkeys((row.way, row.budget) for row in measured):
            same = [row for row in measured if (row.way, row.budget) == (way, budget)]
            yield _described(f"{way} {budget:.0%}" if budget else way, same)
        for metric in METRICS:
            known = [row for row in measured if metric in row.metrics]
            if known:
                yield _correlated(metric, known)


def _described(label: str, same: Sequence[Row]) -> str:
    scores = sorted(row.quality.score for row in same)
    told = [f"{label:<32} length {fmean(r.length for r in same):.2f}"]
    told.append(f"score {fmean(scores):.2f} ({scores[0]:.2f} to {scores[-1]:.2f})")
    for metric in METRICS:
        values = [row.metrics[metric] for row in same if metric in row.metrics]
        told += [f"{metric} {fmean(values):.2f}"] if values else []
    return "  ".join(told)


def _correlated(metric: str, known: Sequence[Row]) -> str:
    overall = rho([(row.quality.score, row.metrics[metric]) for row in known])
    within = _mean_rho(known, metric, lambda row: row.quality.score)
    length = _mean_rho(known, metric, lambda row: row.length)
    matched = _mean_rho(known, metric, lambda row: row.quality.score, matched=True)
    others = [row for row in known if not row.way.startswith("extract")]
    apart = _mean_rho(others, metric, lambda row: row.quality.score)
    apart_length = _mean_rho(others, metric, lambda row: row.length)
    return (
        f"rho with {metric}: all {overall or 0:.2f}, within conversations {within} "
        f"(length alone {length}), "
        f"without extract's {apart} (length alone {apart_length}), at one length {matched}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one block per data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args(argv)
    for line in correlation(options.folder, options.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
