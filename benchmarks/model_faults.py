"""Runs many sessions against a model endpoint that fails at random, and says what came of it.

    python -m benchmarks.model_faults FOLDER [--minutes 10] [--baseline-minutes 10]
        [--sessions 48] [--threads 32] [--share 0.3] [--turns-per-s 1] [--seed 0]

FOLDER holds `tau.jsonl.gz`. A real worker with a pool of threads compacts sessions that turns of
real agents are pushed to steadily, each push followed by a read, while so large a share of the
model's answers fails in one of all the ways the fake endpoint knows. Then the endpoint recovers.
Ends with 1 unless every read was valid and within the hard limit, no bad text was committed, every
session settled, and the model wrote a summary of each again. A run without faults comes first, for
the calls it takes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from benchmarks.model_talks import conversations, endless, load_average, written
from tests.processes import WorkerProcess, wait_until
from turnmill import Context, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.testing import FAULTS, FakeEndpoint, Fault
from turnmill.testing.model import INJECTED, write
from turnmill_worker.tokens import counter_for

KEY = "sk-for-benchmarks-only"
MODEL = "fake-model"
COUNT = counter_for().count_messages
POLICY = Policy(
    max_tokens=4_096,
    summarizer="openai",
    model=MODEL,
    model_timeout_s=2,
    strategies=("rolling", "window"),
    quality_threshold=0.0,
)
LATENCY_S = 0.4

BAD = re.compile(
    "|".join(
        (
            re.escape(INJECTED),
            r"I'm sorry, but I can't help with that request\.\s*\Z",
            "Пользователь обсуждал другой вопрос",
            r"Remark \d+ repeats what was said before",
            r"<<(?:conversation|end|summary so far) [0-9a-f]{12}>>",
            "Goal of a text that has no end",
            "a proxy has something to say",
            '"chatcmpl-1"',
            "refused a request with key",
        )
    )
)
"""What is in bad answers only; of unfinished ones, see ``cut_off``."""


@dataclass
class Seen:
    """What reads of all sessions showed."""

    reads: int = 0
    over_limit: int = 0
    invalid: int = 0
    projected: int = 0
    summaries: set[str] = field(default_factory=set)

    def add(self, context: Context) -> None:
        self.reads += 1
        self.over_limit += COUNT(context.messages) > POLICY.hard_limit
        self.invalid += bool(violations(context.messages))
        self.projected += context.projection is not None
        if context.summary:
            self.summaries.add(context.summary)


@dataclass
class Ran:
    """One run's figures."""

    turns: int = 0
    calls: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seen: Seen = field(default_factory=Seen)
    bad: int = 0
    by: Counter[str] = field(default_factory=Counter)
    settled_s: float = 0.0
    not_settled: list[str] = field(default_factory=list)
    not_back: list[str] = field(default_factory=list)

    @property
    def calls_per_1000(self) -> float:
        """Model calls for a thousand turns."""
        return self.calls / max(self.turns, 1) * 1000

    @property
    def calls_per_summary(self) -> float:
        """Model calls for a summary that was committed, whoever wrote it."""
        return self.calls / max(self.by[MODEL] + self.by["extractive"], 1)

    @property
    def is_good(self) -> bool:
        """Whether all promises were kept."""
        wrong = self.seen.over_limit + self.seen.invalid + self.bad
        return not (wrong or self.not_settled or self.not_back)


def shares(total: float) -> dict[Fault, float]:
    """All kinds of faults alike, together this share."""
    kinds: list[Fault] = [fault for fault in FAULTS if fault != "ok"]
    return dict.fromkeys(kinds, total / len(kinds))


def run(options: argparse.Namespace, minutes: float, share: float) -> Ran:
    """Push for so long, recover, settle, and look at what was committed."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis(Path(name) / "redis", durable=False) as store,
        FakeEndpoint(
            latency_s=LATENCY_S, faults=shares(share), seed=options.seed, key=KEY, hang_s=20
        ) as endpoint,
        WorkerProcess(
            store.url,
            Path(name),
            pool="threads",
            concurrency=options.threads,
            env={"TURNMILL_MODEL_URL": endpoint.base_url, "TURNMILL_MODEL_KEY": KEY},
        ),
        ContextClient(store.url, namespace="faults") as client,
        redis.Redis.from_url(store.url) as server,
    ):
        load = Load(client, options)
        ran = Ran(seen=load.seen)
        load.push(minutes * 60)
        ran.turns, ran.calls = load.turns, len(endpoint.requests)
        ran.faults.update(asked.fault for asked in endpoint.requests)
        cut_off = [asked for asked in endpoint.requests if asked.fault == "length"]
        endpoint.recover()
        for session in load.sessions:
            ran.by.update(_by(record) for record in written(server, client, session))
        start = time.monotonic()
        ran.not_settled = load.settle(options.settle_s)
        ran.settled_s = time.monotonic() - start
        ran.not_back = load.until_back(server, options.settle_s) if share else []
        halves = {write(asked.body, asked.prompt, asked.fault).text for asked in cut_off}
        ran.bad = sum(
            bool(BAD.search(summary)) or summary.strip() in halves
            for summary in load.seen.summaries
        )
        return ran


def _is_at_rest(client: ContextClient, session: str, *, turns: int) -> bool:
    """Whether all turns are counted and nothing is due.

    It may be over its soft limit: the load can end between a call and its result, and what is open
    is never compacted.
    """
    info = client.info(session)
    return info.last_seq == info.counted_seq == turns and info.due_in_s is None


def _by(record: dict[str, Any]) -> str:
    """Who wrote a compaction's summary, or the strategy that needs none."""
    return str(record.get("model") or record["strategy"])


class Load:
    """Sessions, and what is pushed to them."""

    def __init__(self, client: ContextClient, options: argparse.Namespace) -> None:
        found = conversations(options.folder)
        self.sessions = [f"s{at:03}" for at in range(options.sessions)]
        self.seen = Seen()
        self.turns = 0
        self._client = client
        self._rate = options.turns_per_s * options.sessions
        self._of: dict[str, Any] = {
            session: endless(found, at * 7) for at, session in enumerate(self.sessions)
        }
        self._pushed: Counter[str] = Counter()
        for session in self.sessions:
            client.open(session, POLICY)

    def push(self, seconds: float) -> None:
        """Push to each session in turn at the rate asked for, and read after each push."""
        start = time.monotonic()
        at = 0
        while (now := time.monotonic() - start) < seconds:
            if at > now * self._rate:
                time.sleep(min(at / self._rate - now, 0.05))
                continue
            self._step(self.sessions[at % len(self.sessions)])
            at += 1

    def _step(self, session: str) -> None:
        self._client.push(session, next(self._of[session]))
        self._pushed[session] += 1
        self.turns += 1
        self.seen.add(self._client.read(session))

    def settle(self, within_s: float) -> list[str]:
        """Wait until nothing is due; the sessions where something still is, in the end."""

        def waiting() -> list[str]:
            return [
                session
                for session in self.sessions
                if not _is_at_rest(self._client, session, turns=self._pushed[session])
            ]

        try:
            wait_until(lambda: not waiting(), within_s=within_s, what="settled")
        except AssertionError:
            return waiting()
        for session in self.sessions:
            self.seen.add(self._client.read(session))
        return []

    def until_back(self, server: redis.Redis, within_s: float) -> list[str]:
        """Push on until each session's newest summary is the model's; those where none is."""
        end = time.monotonic() + within_s
        before = {s: len(written(server, self._client, s)) for s in self.sessions}
        missing = list(self.sessions)
        while missing and time.monotonic() < end:
            for session in missing:
                self._step(session)
                time.sleep(1 / self._rate)
            missing = [
                session
                for session in missing
                if MODEL
                not in {
                    _by(record)
                    for record in written(server, self._client, session)[before[session] :]
                }
            ]
        return missing


def main() -> int:
    """Prints the figures; 0 when all promises were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--baseline-minutes", type=float, help="as --minutes when not given")
    parser.add_argument("--sessions", type=int, default=48)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--turns-per-s", type=float, default=1.0, help="per session")
    parser.add_argument("--settle-s", type=float, default=180)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    good = run(options, options.baseline_minutes or options.minutes, 0.0)
    report("without faults", good)
    bad = run(options, options.minutes, options.share)
    report(f"with {options.share:.0%} faults", bad)
    ratio = bad.calls_per_1000 / max(good.calls_per_1000, 1e-9)
    each = bad.calls_per_summary / max(good.calls_per_summary, 1e-9)
    print("\nmodel calls against the run without faults:")
    print(f"  x {ratio:.2f} a turn (of runs as long as each other), x {each:.2f} a summary")
    kept = good.is_good and bad.is_good
    print("all promises kept" if kept else "PROMISES BROKEN")
    return 0 if kept else 1


def report(title: str, ran: Ran) -> None:
    """Prints one run's figures."""
    total = max(sum(ran.by.values()), 1)
    failed = ran.calls - ran.faults["ok"]
    rates = f"{ran.calls_per_1000:.1f} for 1,000 turns, {ran.calls_per_summary:.2f} a summary"
    print(f"\n{title}: {ran.turns} turns, {ran.seen.reads} reads, {load_average()}")
    print(f"  model calls: {ran.calls} ({rates}), {failed} of them failed")
    print(f"  compactions: {dict(ran.by)}; extractive {ran.by['extractive'] / total:.1%}")
    print(f"  reads over the hard limit: {ran.seen.over_limit}; invalid: {ran.seen.invalid}")
    print(f"  reads that had to be cut: {ran.seen.projected}")
    print(f"  bad texts among {len(ran.seen.summaries)} summaries read: {ran.bad}")
    print(f"  settled after {ran.settled_s:.1f} s; not settled: {ran.not_settled or 'none'}")
    print(f"  without a summary by the model after recovery: {ran.not_back or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
