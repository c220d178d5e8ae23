"""Prints how near to ideal many model calls at a time come, in one process with one client.

Usage: python -m benchmarks.model_concurrency [--threads 64] [--latency-ms 800] [--rounds 10]

The endpoint is another process. Ideal is that every thread always waits for the model:
calls / threads x latency. Overhead is what a summarize call takes beside that, measured alone.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from turnmill.contract.names import Seq
from turnmill_worker.compaction.plan import Records, SummaryRequest
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, ModelOptions
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer
from turnmill_worker.tokens import counter_for

_SERVE = """
import sys
from turnmill.testing import FakeEndpoint
with FakeEndpoint(latency_s=float(sys.argv[1])) as endpoint:
    print(endpoint.base_url, flush=True)
    sys.stdin.read()
    print(endpoint.peak, flush=True)
"""


def request(session: int, turns: int) -> SummaryRequest:
    """An ordinary piece of work: some tool calls, about 100 tokens a turn."""
    records: list[tuple[Seq, dict[str, Any]]] = []
    for at in range(1, turns + 1):
        call = {"name": "look_up", "arguments": f'{{"order": "#W{session:03}{at:04}"}}'}
        calls = [{"id": f"c{at}", "type": "function", "function": call}]
        said = f"Please look up order #W{session:03}{at:04} and do not change item {at}. " * 3
        found = f'{{"order": "#W{session:03}{at:04}", "total": "{at * 7}.50", "state": "sent"}}'
        records += [
            (Seq(at), {"role": "user", "content": said}),
            (Seq(at), {"role": "assistant", "content": None, "tool_calls": calls}),
            (Seq(at), {"role": "tool", "tool_call_id": f"c{at}", "content": found}),
        ]
    return SummaryRequest(previous="", records=Records(records), budget_tokens=800)


@contextmanager
def serving(latency_s: float) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """An endpoint in a process of its own."""
    command = [sys.executable, "-c", _SERVE, str(latency_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        output, _ = process.communicate()
        print(f"most requests at a time, as the endpoint saw them: {output.strip()}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--latency-ms", type=int, default=800)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4, 10])
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    latency_s = options.latency_ms / 1000
    counter = counter_for()
    work = [request(at, options.turns) for at in range(options.threads)]
    print(f"request: {options.turns} turns, {options.threads} threads, {latency_s * 1000:g} ms")
    with (
        serving(latency_s) as (url, _),
        ModelEndpoint(api_key=SecretStr("sk-x"), base_url=url) as e,
    ):
        summarizer = OpenAiSummarizer(e, ModelOptions(model="gpt-4o-mini"))
        alone = []
        for at in range(8):
            start = time.perf_counter()
            summary = summarizer.summarize(work[at % len(work)], counter)
            alone.append(time.perf_counter() - start - latency_s)
        print(
            f"overhead of one call alone: p50 {statistics.median(alone) * 1000:.1f} ms "
            f"(first {alone[0] * 1000:.0f} ms; {summary.prompt_tokens} prompt tokens as billed)"
        )
        with ThreadPoolExecutor(options.threads) as pool:
            for rounds in options.rounds:
                start, cpu = time.perf_counter(), time.process_time()
                calls = [
                    pool.submit(summarizer.summarize, each, counter)
                    for _ in range(rounds)
                    for each in work
                ]
                for call in calls:
                    call.result()
                wall, used = time.perf_counter() - start, time.process_time() - cpu
                ideal = rounds * latency_s
                print(
                    f"{len(calls):5} calls: {wall:6.2f} s, ideal {ideal:5.2f} s, "
                    f"{ideal / wall:6.1%} of ideal, {used / len(calls) * 1000:.1f} ms CPU a call"
                )


if __name__ == "__main__":
    main()
