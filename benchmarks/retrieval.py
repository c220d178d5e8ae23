"""Prints how often a question finds its evidence among the old turns, and how fast.

    python -m benchmarks.retrieval FOLDER [--only locomo bfcl_memory aer latency asked]
                                          [--beam FOLDER]

FOLDER holds `locomo` and `bfcl_memory` as `.jsonl.gz`; that of `--beam` is described in `beam`.
Every message but a session's heading is one memory, with its speaker, and its heading's date. No
model reads any output.

    p50   of searches for the 10 best; under `asked`, from an agent's question to its answer,
          through Redis and a real worker that follows its archive (SQLite)
    R@k   mean share of a question's evidence turns among the k best memories (categories 1 to 4)
    AER   share of eligible questions whose answer stems all survive in the evidence turns, as
          `survival` has it, kept by a 10 % summary or standing among the k best memories
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import beam
from benchmarks.crowd import crowd
from benchmarks.survival import (
    COUNTER,
    extractive,
    kept_by_seq,
    load,
    method,
    rendered,
    score_question,
    survival,
)
from tests.processes import WorkerProcess
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.evaluate.measuring import DataSet, Mean, MeteredSummarizer, text_of
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Memory
from turnmill_worker.requests.grounding import MemoryIndex
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer

CUTS = (5, 10, 20)
_HEADING = re.compile(r"\[Session")
_DATE = re.compile(r"(\d{1,2}) (\w+), (\d{4})\]$")


def memories_of(conversation: Mapping[str, Any]) -> list[Memory]:
    """One memory per message; a heading dates those below it and is none itself."""
    name = conversation["session_id"]
    found: list[Memory] = []
    at_ms = 0
    for place, message in enumerate(conversation["messages"]):
        text = text_of(message)
        if message["role"] == "system" and _HEADING.match(text):
            at_ms = dated(text)
            continue
        found.append(
            Memory(
                id=f"{name}:e:turn:{place}",
                kind="turn",
                text=text,
                speaker=message.get("name") or message["role"],
                session=SessionId(name),
                position=place,
                at_ms=at_ms,
            )
        )
    return found


def dated(heading: str) -> int:
    """Milliseconds of a heading's day; 0 when it names none."""
    match = _DATE.search(heading)
    if not match:
        return 0
    day = dt.datetime.strptime(" ".join((*match.groups(), "+0000")), "%d %B %Y %z")
    return int(day.timestamp() * 1000)


def questions(conversation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The questions that count: categories 1 to 4, with evidence."""
    for question in conversation.get("qa") or ():
        if question.get("category", 1) in {1, 2, 3, 4} and question["evidence"]:
            yield question


def recall(conversations: Sequence[Mapping[str, Any]]) -> tuple[list[Mean], list[float], float]:
    """R@k for every cut, seconds of every search, and seconds to build an index, on average."""
    means = [Mean() for _ in CUTS]
    searches: list[float] = []
    builds: list[float] = []
    for conversation in conversations:
        started = time.perf_counter()
        index = MemoryIndex(memories_of(conversation))
        builds.append(time.perf_counter() - started)
        index.search("warm up", 1)
        for question in questions(conversation):
            searches.append(_timed(index, question["question"]))
            found = index.search(question["question"], max(CUTS))
            places = [each.memory.position for each in found]
            evidence = set(question["evidence"])
            for mean, cut in zip(means, CUTS, strict=True):
                mean.add(len(evidence.intersection(places[:cut])) / len(evidence))
    return means, searches, statistics.mean(builds)


def with_summary(
    conversations: Sequence[Mapping[str, Any]], share: float, k: int
) -> tuple[Mean, float]:
    """AER of a summary together with the k best memories, and the tokens these cost."""
    means = {"ECR": Mean(), "EV": Mean(), "AER": Mean()}
    cost: list[int] = []
    for conversation in conversations:
        records = list(enumerate(conversation["messages"]))
        texts = [text_of(message) for _, message in records]
        budget = int(share * COUNTER.count(rendered(records)))
        kept = kept_by_seq(extractive(records, budget))
        index = MemoryIndex(memories_of(conversation))
        for question in questions(conversation):
            places = [found.memory.position for found in index.search(question["question"], k)]
            cost.append(sum(COUNTER.count(texts[place]) for place in places))
            score_question(
                question, texts, {**kept, **{place: texts[place] for place in places}}, means
            )
    return means["AER"], statistics.mean(cost)


def _all(conversations: Sequence[Mapping[str, Any]]) -> list[Memory]:
    return [memory for conversation in conversations for memory in memories_of(conversation)]


def latency(conversations: Sequence[Mapping[str, Any]], size: int) -> str:
    """Build time, memory and search times of an index of so many memories."""
    memories = crowd(_all(conversations), size)
    asked = [str(q["question"]) for c in conversations for q in questions(c)][:400]
    started = time.perf_counter()
    index = MemoryIndex(memories)
    built = time.perf_counter() - started
    times = sorted(_timed(index, question) for question in asked)
    del index
    tracemalloc.start()
    index = MemoryIndex(memories)
    index.search(asked[0], 10)
    used = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    p50, p95 = (1000 * times[int(share * len(times))] for share in (0.5, 0.95))
    return (
        f"{size:>8,} memories  p50 {p50:.2f} ms  p95 {p95:.2f} ms  "
        f"build {built:.2f} s  index {used:.1f} MB"
    )


def asked(conversations: Sequence[Mapping[str, Any]], size: int) -> str:
    """Times from an agent's question to its answer: the first, which builds the index, and later.

    Every tenth question comes after a memory more.
    """
    questions_ = [str(q["question"]) for c in conversations for q in questions(c)][:300]
    with tempfile.TemporaryDirectory() as folder:
        archive = SqlArchive.open(f"sqlite:///{folder}/archive.sqlite3")
        for memory in crowd(_all(conversations), size):
            archive.remember(Namespace("asked"), memory)
        archive.close()
        env = {"TURNMILL_ARCHIVE_URL": f"sqlite:///{folder}/archive.sqlite3"}
        with (
            EmbeddedRedis(Path(folder) / "redis", durable=False) as server,
            WorkerProcess(server.url, Path(folder), env=env),
            ContextClient(server.url, namespace="asked") as client,
        ):
            times: list[float] = []
            for at, question in enumerate(questions_):
                if at % 10 == 1:
                    client.remember(f"Note {at}: {question}")
                started = time.perf_counter()
                client.ground(question, 5, timeout_s=60)
                times.append(time.perf_counter() - started)
    first, later = times[0], sorted(times[1:])
    p50, p95, p99 = (1000 * later[int(share * len(later))] for share in (0.5, 0.95, 0.99))
    return (
        f"{size:>8,} memories  asked p50 {p50:.1f} ms  p95 {p95:.1f} ms  p99 {p99:.1f} ms  "
        f"first {1000 * first:.0f} ms"
    )


def _timed(index: MemoryIndex, question: str) -> float:
    started = time.perf_counter()
    index.search(question, 10)
    return time.perf_counter() - started


def found_in(name: str, conversations: Sequence[Mapping[str, Any]]) -> str:
    """One line of recall, times and size."""
    means, searches, build = recall(conversations)
    searches.sort()
    cells = "  ".join(f"R@{cut} {mean}" for cut, mean in zip(CUTS, means, strict=True))
    p50, p99 = (1000 * searches[int(share * len(searches))] for share in (0.5, 0.99))
    return (
        f"{name:<12} n={means[0].n:<4} {cells}  "
        f"p50 {p50:.3f} ms  p99 {p99:.3f} ms  build {1000 * build:.0f} ms"
    )


def by_role(conversation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The conversation without its speakers' names: one is the user, the other the assistant."""
    messages = [{**message, "name": None} for message in conversation["messages"]]
    return {**conversation, "messages": messages}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints recall per data set, then answers kept with a summary, then latency by size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parts = ["locomo", "bfcl_memory", "aer", "latency", "asked"]
    parser.add_argument("--only", nargs="*", default=parts, choices=parts)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--beam", type=Path, metavar="FOLDER")
    options = parser.parse_args(argv)
    locomo = load(options.folder, "locomo")
    if "locomo" in options.only:
        print(found_in("locomo", locomo))
        print(found_in("  by role", list(map(by_role, locomo))))
    if "bfcl_memory" in options.only:
        print(found_in("bfcl_memory", load(options.folder, "bfcl_memory")))
    if options.beam:
        print(found_in("beam", list(beam.conversations(options.beam, beam.FACTS))))
        print(found_in("  other", list(beam.conversations(options.beam, beam.OTHERS))))
    if "aer" in options.only:
        data = DataSet("locomo", tuple(locomo), None)
        shorten = method("extract", MeteredSummarizer(ExtractiveSummarizer(), COUNTER))
        alone = survival(data, shorten, 0.1, COUNTER.count)["AER"]
        both, cost = with_summary(locomo, 0.1, 5)
        print(
            f"locomo AER   10 % summary {alone}  with the 5 best memories {both} (+{cost:.0f} tok)"
        )
    for name, measure in (("latency", latency), ("asked", asked)):
        for size in options.sizes if name in options.only else ():
            print(measure(locomo, size))


if __name__ == "__main__":
    main()
