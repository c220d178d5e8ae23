"""Prints what agents' input costs with turnmill and with in-process peers, prompt caches included.

    python -m benchmarks.economy FOLDER [--peers build/peers/bin/python] [--pause 400]

FOLDER holds real sessions as ``.jsonl.gz``, joined to 60,000 tokens. All get the same sessions,
window and pauses of users, and a model whose every summary has 400 tokens (`make bench-peers`
installs the peers). Costs are thousands of tokens of uncached input; one of output costs four.

    extractive  no model                idle    and compacted when the session falls quiet
    small       as idle, from .3 of the window on, to .15
    turns       a model, asked with the turns that leave
    context     a model, asked behind the context       both    and compacted when it falls quiet
"""

from __future__ import annotations

import argparse
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import IDLE_S
from turnmill_cli.evaluate.measuring import InMemorySession, MeteredSummarizer, joined, load
from turnmill_cli.evaluate.prompt_cache import RULES, PromptCache, Sent, beginnings
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

ANSWER: Final = 400
OUTPUT: Final = 4
STEP_S: Final = 10.0
PROMPT: Final = 900
"""Tokens of instructions, marks and message numbers in turnmill's requests."""

TOKENS: Final = 60_000
PEERS: Final = ("langchain_middleware.memory", "pydantic_ai_harness.foreground")
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "extractive": {},
    "idle": {"compact_when_idle_s": 0},
    "small": {"compact_when_idle_s": 0, "soft_ratio": 0.3, "target_ratio": 0.15},
    "turns": {"summarizer": "openai"},
    "context": {"summarizer": "openai", "summary_on": "context"},
    "both": {"summarizer": "openai", "summary_on": "context", "compact_when_idle_s": 0},
}

Session = tuple[str, list[JsonMessage]]
counter = CountedOnce(counter_for("o200k_base", "gpt-4o"))


class Bill:
    """One way's costs by each provider's rules."""

    def __init__(self) -> None:
        self.costs = dict.fromkeys(RULES, 0.0)
        self.at_s = 0.0

    def begin(self) -> None:
        """A session begins."""
        self.caches = {name: PromptCache(rules) for name, rules in RULES.items()}

    def wait(self, message: JsonMessage, pause_s: float) -> None:
        """Until the message is there."""
        self.at_s += STEP_S + pause_s * (message["role"] == "user")

    def call(self, context: Sequence[Sent], *, output: int = 0, only: str = "") -> None:
        """A call of a model."""
        ends = beginnings(context)
        for name in [only] if only else RULES:
            self.costs[name] += self.caches[name].bill(ends, self.at_s) + output * OUTPUT

    def plain(self, tokens: int) -> None:
        """A call that shares nothing with another."""
        for name in RULES:
            self.costs[name] += tokens + ANSWER * OUTPUT


class Priced(ExtractiveSummarizer):
    """Writes as without a model, and bills as one."""

    def __init__(self, bill: Bill, *, asks: bool, only: str = "") -> None:
        self._bill, self._asks, self._only = bill, asks, only

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The text; the request is billed."""
        context = request.context
        if self._asks and context is None:
            records = [message for _, message in request.records]
            self._bill.plain(PROMPT + counter.count_messages(records))
        elif context is not None:
            sent = [*_sent(context.messages), (b"instructions", PROMPT)]
            self._bill.call(sent, output=ANSWER, only=self._only)
        return super().summarize(request, counter)


def _sent(messages: Sequence[JsonMessage]) -> list[Sent]:
    return [(json.dumps(each).encode(), counter.count_messages([each])) for each in messages]


def turnmill(sessions: Sequence[Session], way: str, options: Any, name: str) -> float:
    """What one way costs by one provider's rules."""
    fields = dict(WAYS[way])
    if "compact_when_idle_s" in fields:
        fields["compact_when_idle_s"] = IDLE_S[name]
    policy, bill = Policy(max_tokens=options.window, **fields), Bill()
    metered = MeteredSummarizer(Priced(bill, asks="summarizer" in fields, only=name), counter)
    for system, messages in sessions:
        session = InMemorySession(policy, system, metered)
        bill.begin()
        for message, after in zip(messages, [*messages[1:], {}], strict=True):
            if message["role"] == "user" and 0 < policy.compact_when_idle_s < options.pause:
                bill.at_s += policy.compact_when_idle_s
                session.rest(policy.compact_when_idle_s)
                bill.at_s -= policy.compact_when_idle_s
            bill.wait(message, options.pause)
            session.push(message)
            if after.get("role") == "assistant":
                bill.call(_sent(session.read()), only=name)
    return bill.costs[name]


def peer(sessions: Sequence[Session], made_by: str, options: Any) -> Bill:
    """What a peer costs."""
    bill, asked = Bill(), list[str]()
    with _model(asked) as url:
        given = {"window": options.window, "url": url, "sessions": [m for _, m in sessions]}
        done = subprocess.run(
            [options.peers, "-m", "benchmarks.steps.peers.contexts", made_by],
            input=json.dumps(given).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
    contexts = iter([json.loads(line) for line in done.stdout.splitlines()])
    for at, (system, messages) in enumerate(sessions):
        bill.begin()
        for message, after in zip(messages, [*messages[1:], {}], strict=True):
            bill.wait(message, options.pause)
            if after.get("role") == "assistant":
                number, texts = next(contexts)
                assert number == at
                said = [{"role": "system", "content": system}] if system else []
                said += [{"role": "user", "content": text} for text in texts]
                bill.call(_sent(said))
    for prompt in asked:
        bill.plain(counter.count(prompt))
    print(f"  {made_by}: {len(asked)} summaries")
    return bill


@contextmanager
def _model(asked: list[str]) -> Iterator[str]:
    """A model's URL; what it is asked is kept, and every answer is as long."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append("\n".join(str(each.get("content")) for each in body["messages"]))
            message = {"role": "assistant", "content": " word" * ANSWER}
            told = {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def main() -> None:
    """Print a table for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", default="")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--only", nargs="*", default=["tau", "coding"])
    parser.add_argument("--sessions", type=int, default=3)
    options = parser.parse_args()
    for name in options.only:
        data = load(options.folder / f"{name}.jsonl.gz")
        sessions = joined(data, TOKENS, counter.count_messages)[: options.sessions]
        print(f"{name}, window {options.window:,}, pause {options.pause:g} s")
        peers = PEERS if options.peers else ()
        rows = {each: peer(sessions, each, options).costs for each in peers}
        for way in WAYS:
            rows[way] = {rules: turnmill(sessions, way, options, rules) for rules in RULES}
        print(f"  {'':32}" + "".join(f"{rules:>14}" for rules in RULES))
        for row, costs in rows.items():
            print(f"  {row:32}" + "".join(f"{cost / 1000:>14,.0f}" for cost in costs.values()))


if __name__ == "__main__":
    main()
