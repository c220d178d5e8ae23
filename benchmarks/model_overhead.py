"""Prints what a summarize job takes beside the model's own time, through a real worker.

    python -m benchmarks.model_overhead FOLDER [--jobs 60] [--latency-ms 300] [--tokens 8192]

FOLDER holds `tau.jsonl.gz`. Each session is pushed until it is over its soft limit, and alone: its
job's run time, as Celery's events tell it, less the endpoint's latency for each call the job made.
What the fake endpoint takes to write an answer is counted as ours. Goal: p50 at most 15 ms.

Beside it, in the same run and after each job, what no summary can do without: the same prompt sent
by the bare OpenAI client, less the latency, and a Celery task that finds nothing to do. How far
these are from their best tells how busy the machine is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai

from benchmarks.model_talks import conversations, endless, load_average
from benchmarks.timing import Sample
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import Events, plain_celery
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.testing import FakeEndpoint

KEY = "sk-for-benchmarks-only"
WARM_UP = 3
"""The first jobs of a process import, connect and load: told apart."""


def succeeded(events: Events, task: str, session: str, outcome: str) -> dict[str, Any] | None:
    """The event of the session's job that had this outcome, once it is there."""
    names = {e["uuid"]: e.get("name") for e in list(events.seen) if e["type"] == "task-received"}
    for event in list(events.seen):
        if event["type"] == "task-succeeded" and names.get(event["uuid"]) == task:
            result = event["result"]
            if f"'session': '{session}'" in result and f"'{outcome}'" in result:
                return event
    return None


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--latency-ms", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=8192)
    options = parser.parse_args()
    latency_s = options.latency_ms / 1000
    policy = Policy(
        max_tokens=options.tokens,
        summarizer="openai",
        model="gpt-4o-mini",
        strategies=("rolling", "window"),
        quality_threshold=0.0,
    )
    found = conversations(options.folder)
    seconds: list[float] = []
    calls: list[int] = []
    bare_calls: list[float] = []
    bare_tasks: list[float] = []
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis(Path(name) / "redis", durable=False) as redis,
        FakeEndpoint(latency_s=latency_s, key=KEY) as endpoint,
        WorkerProcess(
            redis.url,
            Path(name),
            pool="threads",
            concurrency=4,
            env={"TURNMILL_MODEL_URL": endpoint.base_url, "TURNMILL_MODEL_KEY": KEY},
        ),
        Events(redis.url) as events,
        ContextClient(redis.url, namespace="overhead") as client,
        openai.OpenAI(api_key=KEY, base_url=endpoint.base_url) as model,
        plain_celery(redis.url) as celery,
    ):
        for at in range(options.jobs + WARM_UP):
            asked = len(endpoint.requests)
            event = run(client, events, f"s{at:04}", policy, endless(found, at))
            calls.append(len(endpoint.requests) - asked)
            seconds.append(event["runtime"] - calls[-1] * latency_s)
            body = endpoint.requests[-1].body
            start = time.perf_counter()
            model.chat.completions.create(**body)
            bare_calls.append(time.perf_counter() - start - latency_s)
            nobody = f"nobody{at:04}"
            celery.send_task(jobs.COMPACT, args=("overhead", nobody), queue="compact")
            bare_tasks.append(ended(events, jobs.COMPACT, nobody, "unknown")["runtime"])
    print(f"{options.jobs} jobs, {options.tokens} tokens, {load_average()}")
    print(f"first job {seconds[0] * 1000:.0f} ms; calls a job: {sum(calls) / len(calls):.2f}")
    print("ms          best     p50     p95")
    for label, taken in (
        ("summary", seconds),
        ("bare call", bare_calls),
        ("bare task", bare_tasks),
    ):
        print(f"{label:<10}" + "".join(f"{each:8.1f}" for each in spread_ms(taken[WARM_UP:])))


def spread_ms(seconds: list[float]) -> list[float]:
    """The least of them, the median, and what 95 % do not exceed."""
    measured = Sample(sorted(seconds))
    return [measured.percentile_ms(share) for share in (0.0, 0.5, 0.95)]


def run(
    client: ContextClient,
    events: Events,
    session: str,
    policy: Policy,
    turns: Iterator[dict[str, Any]],
) -> dict[str, Any]:
    """Push until the session is over its soft limit; the event of the job that followed."""
    client.open(session, policy)

    def pushed() -> bool:
        """Whether the session is compacted; a turn more when it is counted and not over."""
        info = client.info(session)
        if info.counted_seq == info.last_seq and info.usage.total <= info.limits.soft:
            client.push(session, next(turns))
        return info.version > 0

    wait_until(pushed, within_s=60, what=f"{session}: compacted")
    return ended(events, jobs.SUMMARIZE, session, "committed")


def ended(events: Events, task: str, session: str, outcome: str) -> dict[str, Any]:
    """The event of the session's job, as soon as it is there."""

    def found() -> dict[str, Any] | None:
        return succeeded(events, task, session, outcome)

    wait_until(found, what=f"{session}: event")
    event = found()
    assert event is not None
    return event


if __name__ == "__main__":
    main()
