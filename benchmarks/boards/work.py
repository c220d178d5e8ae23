"""What of regular agent work stands in a context, beside a window of the newest turns.

Each session is pushed turn by turn through the pipeline's stages in memory, as if workers always
kept up, and read at its end. The window has as many tokens as that context. A board is looked at,
not tuned to: when a number is low, read the context, and mend the kind.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.boards import other_shapes, regular_work
from turnmill.contract.context import JsonMessage
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill_cli.evaluate.measuring import InMemorySession, MeteredSummarizer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

LIMITS = (4_096, 8_192)
KINDS: dict[str, Callable[[str, int], Any]] = {
    **dict.fromkeys(("invoices", "migration", "alerts"), regular_work.run),
    **dict.fromkeys(other_shapes.KINDS, other_shapes.run),
}
SCORE: Callable[..., dict[str, float]] = regular_work.score
COUNTER = CountedOnce(counter_for("o200k_base"))


def text_of(messages: Iterable[JsonMessage]) -> str:
    """All that a model reads in these messages."""
    lines = []
    for message in messages:
        calls = [
            f"{call['function']['name']}({call['function']['arguments']})"
            for call in message.get("tool_calls") or ()
        ]
        lines.append(" ".join([str(message.get("content") or ""), *calls]))
    return "\n".join(lines)


def window(messages: Sequence[JsonMessage], tokens: int) -> str:
    """The newest messages of at most so many tokens."""
    kept: list[JsonMessage] = []
    for message in reversed(messages):
        tokens -= COUNTER.count_messages([message])
        if tokens < 0:
            break
        kept.insert(0, message)
    return text_of(kept)


def played(kind: str, seed: int, limit: int) -> tuple[str, dict[str, dict[str, float]]]:
    """A session's context, and what it and a window keep of the work."""
    work = KINDS[kind](kind, seed)
    metered = MeteredSummarizer(ExtractiveSummarizer(), COUNTER)
    session = InMemorySession(Policy(max_tokens=limit), work.system, metered)
    began = time.process_time()
    for message in work.messages:
        session.push(dict(message))
    spent_ms = 1e3 * (time.process_time() - began) / max(session.compactions, 1)
    context = session.read()
    text = text_of(context)
    plain = window(work.messages, COUNTER.count_messages(context))
    kept = SCORE(work, text, text_of(render_head(session.stored)))
    return text, {
        "turnmill": kept | {"ms a compaction": spent_ms},
        "window": SCORE(work, plain),
    }


def work_boards(seeds: Sequence[int], kinds: Sequence[str], contexts: Path | None) -> None:
    """Print the tables."""
    for limit in LIMITS:
        rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for kind, seed in product(kinds, seeds):
            text, found = played(kind, seed, limit)
            if contexts:
                contexts.mkdir(parents=True, exist_ok=True)
                (contexts / f"{kind}-{seed}-{limit}.txt").write_text(text)
            for who, row in found.items():
                for name, value in row.items():
                    rows[f"{kind}: {who}"][name].append(value)
                    rows[f"mean: {who}"][name].append(value)
        table(limit, rows)


def table(limit: int, rows: dict[str, dict[str, list[float]]]) -> None:
    """One table in Markdown."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    print(f"\n**Regular work at {limit:,} tokens**\n\n| | {' | '.join(columns)} |")
    print(f"|---|{'--:|' * len(columns)}")
    for who, row in rows.items():
        cells = (f"{fmean(row[name]):.2f}" if name in row else "" for name in columns)
        print(f"| {who} | {' | '.join(cells)} |")
