"""Prints which compactions the default quality threshold passes and refuses, and what it costs.

    python -m benchmarks.quality_calibration FOLDER [--part calibration speed]

FOLDER holds `locomo`, `bfcl_memory`, `tau`, `sgd` and `coding` as `.jsonl.gz`, as in `survival`.

calibration  Sessions are pushed message by message and compacted where the policy says so. Each
             compaction is scored with the extractive summary, and with worse ones in its place.
speed        The score against `extract` on the same messages.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import survival
from benchmarks.quality_correlation import BOILERPLATE, NAMES, WEIGHTS, count
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill_worker.compaction.ledger.budget import with_facts
from turnmill_worker.compaction.plan import Plan, Records, SummaryRequest
from turnmill_worker.compaction.quality.score import Quality, Scorer
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import counter_for

COUNTER = counter_for("o200k_base")
COUNT = COUNTER.count_messages


@dataclass(frozen=True)
class Done:
    """A compaction of a replayed session."""

    before: Snapshot
    plan: Plan
    context: StoredContext
    turns: int
    compactions: int

    @property
    def kept(self) -> list[LoggedTurn]:
        """The tail it leaves."""
        turns = self.plan.snapshot.turns
        return [turn for turn in turns if turn.seq > self.context.watermark]

    def quality(self, context: StoredContext) -> Quality:
        """The score, had ``context`` been committed.

        A plan that covers no turns but shortens some is judged by all turns but the newest:
        what they say now stands for what they said.
        """
        policy = self.before.policy
        turns = self.before.turns
        before, after = _legal(turns), _legal(self.plan.snapshot.turns)
        kept = [turn.seq for turn in self.kept]
        older = [] if self.plan.covered else kept[: -policy.recent_turns_to_keep or None]
        lost = {t.seq for group in self.plan.covered if not group.pinned for t in group.turns}
        lost |= {*older, *(seq for seq in kept if after[seq] != before[seq])}
        return Scorer(
            covered=Records((t.seq, m) for t in turns if t.seq in lost for m in t.original),
            previous=render_head(self.before.stored),
            tail=[message for seq in kept[len(older) :] for message in after[seq]],
            kept_turns=len(kept),
            wanted_turns=policy.recent_turns_to_keep,
            turns=self.turns,
            compactions=self.compactions,
            weights=WEIGHTS,
            behind=[m for seq in older for m in after[seq]],
        ).score(render_head(context))


def _legal(turns: Sequence[LoggedTurn]) -> dict[Seq, Sequence[JsonMessage]]:
    """The turns as read, by seq."""
    tracker = CallTracker()
    return {turn.seq: tracker.repair(turn.shown) for turn in turns}


def replayed(messages: Sequence[JsonMessage], policy: Policy) -> Iterator[Done]:
    """The compactions of a session that is pushed message by message."""
    snapshot = Snapshot(
        namespace=Namespace("replay"),
        session=SessionId("s"),
        epoch="1",
        revision="1",
        policy=policy,
        system_tokens=0,
        stored=EMPTY,
        turns=(),
        counted_seq=Seq(0),
    )
    compactions = 0
    for seq, message in enumerate(messages, 1):
        turn = LoggedTurn(Seq(seq), (message,), (message,), COUNT([message]))
        snapshot = replace(snapshot, turns=(*snapshot.turns, turn), counted_seq=Seq(seq))
        if snapshot.usage.total <= snapshot.limits.soft:
            continue
        if (found := _compacted(snapshot)) is not None:
            made, context = found
            done = Done(snapshot, made, context, seq, compactions)
            yield done
            compactions += 1
            snapshot = replace(snapshot, stored=context, turns=tuple(done.kept), facts=made.facts)


def _compacted(snapshot: Snapshot) -> tuple[Plan, StoredContext] | None:
    below = ""
    while (made := plan(snapshot, COUNTER, below=below)) is not None:
        made = with_facts(made, COUNTER.count)
        texts = [ExtractiveSummarizer().summarize(each, COUNTER).text for each in made.requests]
        try:
            return made, splice(made, texts, COUNTER)
        except SummaryRejected:
            below = made.strategy
    return None


def _summary(request: SummaryRequest, budget: int) -> str:
    return extract(
        request.records, previous=request.previous, budget_tokens=budget, count=COUNTER.count
    )


def sessions(name: str, conversations: Sequence[Mapping[str, Any]]) -> list[list[JsonMessage]]:
    """Long sessions: short conversations follow each other, as in an agent that serves many.

    One of each group only: another run of the same task would make every fact an old one.
    """
    joined: list[list[JsonMessage]] = [[]]
    one_each = {str(each.get("group") or each["session_id"]): each for each in conversations}
    for conversation in one_each.values():
        spoken = [dict(m) for m in conversation["messages"] if m["role"] != "system"]
        joined[-1] += spoken or [{**m, "role": "user"} for m in conversation["messages"]]
        if name in {"locomo", "bfcl_memory"} or COUNT(joined[-1]) > 40_000:
            joined.append([])
    return [messages for messages in joined if messages]


def calibration(folder: Path, names: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    """Which scores the default policy's compactions get, and how many are at least its threshold.

    The same with smaller windows, whose summaries are the same share of a smaller room.
    """
    for tokens in sizes:
        policy = Policy(max_tokens=tokens)
        yield f"\nmax_tokens {tokens}, threshold {policy.quality_threshold}"
        by_session = [
            list(replayed(messages, policy))
            for name in names
            for messages in sessions(name, survival.load(folder, name))
        ]
        scores: dict[str, list[float]] = defaultdict(list)
        for label, value in _judged([done for done in by_session if done]):
            scores[label].append(value)
        for label, values in scores.items():
            passed = sum(value >= policy.quality_threshold for value in values) / len(values)
            ordered = sorted(values)
            low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
            yield (
                f"{label:<32} n={len(values):<5} passed {passed:7.2%}  median "
                f"{ordered[len(ordered) // 2]:.2f}  1st to 99th percentile {low:.2f} to {high:.2f}"
            )


def _judged(by_session: Sequence[Sequence[Done]]) -> Iterator[tuple[str, float]]:
    """The scores of what was committed, and of what might have been in its place."""
    for number, done in enumerate(by_session):
        strangers = by_session[(number + len(by_session) // 2) % len(by_session)]
        for at, each in enumerate(done):
            yield f"committed: {each.plan.strategy}", each.quality(each.context).score
            request = each.plan.request
            if request is None:
                continue
            budget = request.whole_tokens
            older = each.before.stored
            instead = {
                "extract, half of its budget": (_summary(request, budget // 2), ""),
                "extract, a tenth of its budget": (_summary(request, budget // 10), ""),
                "summary of another session": (strangers[at % len(strangers)].context.summary, ""),
                "boilerplate": (BOILERPLATE, ""),
                "window: nothing": ("", ""),
                "window: older head only": (older.summary, older.ledger),
            }
            for label, (text, facts) in instead.items():
                context = each.context.model_copy(update={"summary": text, "ledger": facts})
                yield label, each.quality(context).score


# --- speed -------------------------------------------------------------------------------------


def speed(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Milliseconds of processor time, the best of three."""
    for name in names:
        spoken = sessions(name, survival.load(folder, name))[0]
        yield _timed(name, list(enumerate(spoken[:400], 1)), spoken[400:403])
    hostile = {
        "unbroken": "x" * 200_000,
        "separators": "a.b/" * 50_000,
        "repeated word": "no " * 66_000,
        "identifiers": " ".join(f"W{n:06}" for n in range(25_000)),
        "alike sentences": " ".join(f"Do not send W{n % 97} to town {n}." for n in range(1_000)),
        "json": json.dumps([{"id": n, "name": f"item {n}"} for n in range(6_000)]),
    }
    for label, text in hostile.items():
        yield _timed(f"hostile: {label}", [(1, {"role": "user", "content": text})], [])


def _timed(
    label: str, records: Sequence[tuple[int, JsonMessage]], tail: Sequence[JsonMessage]
) -> str:
    covered = [(Seq(seq), message) for seq, message in records]
    text = survival.rendered(covered)
    budget = int(0.4 * count(text))
    summary = extract(covered, budget_tokens=budget, count=COUNTER.count)
    head = render_head(EMPTY.model_copy(update={"summary": summary}))

    def scored() -> object:
        return Scorer(
            covered=Records(covered),
            previous=[],
            tail=tail,
            kept_turns=3,
            wanted_turns=3,
            turns=9,
            compactions=1,
            weights=WEIGHTS,
        ).score(head)

    theirs = _best(lambda: extract(covered, budget_tokens=budget, count=COUNTER.count))
    ours = _best(scored)
    return (
        f"{label:<32} {len(text):>8,} characters  extract {theirs:7.1f} ms  score {ours:7.1f} ms"
        f"  ratio {ours / theirs:.2f}"
    )


def _best(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        started = time.process_time()
        work()
        taken.append((time.process_time() - started) * 1000)
    return min(taken)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parts = ["calibration", "speed"]
    parser.add_argument("--part", nargs="+", default=parts, choices=parts)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--max-tokens", nargs="+", type=int, default=[8192, 4096, 2048])
    options = parser.parse_args(argv)
    if "calibration" in options.part:
        for line in calibration(options.folder, options.only, options.max_tokens):
            print(line, flush=True)
    if "speed" in options.part:
        for line in speed(options.folder, options.only):
            print(line, flush=True)


if __name__ == "__main__":
    main()
