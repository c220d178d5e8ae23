"""Prints what a real model adds to contexts, beside the extractive ones of the same turns.

    python -m benchmarks.real_model --url http://127.0.0.1:8215/v1 --model qwen1.5b --out FOLDER
        [--sessions FOLDER] [--most 12] [--compactions 2] [--minutes 30]

FOLDER of --sessions holds conversations, one a line, in JSONL files or `.gz` of them; without it,
agent work is made from a seed. Each session is pushed turn by turn through the pipeline's stages in
memory; each compaction is written by the model and, for the same turns, without one. --out gets
each context, each request and answer (`calls.jsonl`), and the answers alone (`answers.jsonl`).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.boards.common import write_context
from benchmarks.model_talks import load_average
from benchmarks.real_model.sessions import Session, all_made, recorded
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill_cli.evaluate.measuring import InMemorySession, MeteredSummarizer, text_of
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.settings import load_settings
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.openai.endpoint import Answer, Endpoint, ModelOptions, Prompt
from turnmill_worker.summarizers.openai.summarizer import Connected, OpenAiSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import CountedOnce, counter_for


@dataclass(slots=True)
class Call:
    """One request to the model: what was sent, what came back, and how long that took."""

    prompt: Prompt
    answer: Answer | None
    error: str
    seconds: float


class Listening:
    """The ``Endpoint`` port over another; keeps what passes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.calls: list[Call] = []

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """Its answer."""
        began, answer, error = time.perf_counter(), None, ""
        try:
            answer = self._endpoint.ask(prompt, options)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            self.calls.append(Call(prompt, answer, error, time.perf_counter() - began))
        return answer

    def run(self, call: Any, options: ModelOptions) -> Any:
        """See ``ModelEndpoint.run``."""
        return self._endpoint.run(call, options)


@dataclass(slots=True, kw_only=True)
class Row:
    """One compaction, with the model and without it."""

    turns: int
    draft: Draft
    twin: Draft
    cpu_ms: float
    twin_cpu_ms: float
    calls: Sequence[Call]

    @property
    def is_models(self) -> bool:
        """Whether the model's words are in what is committed."""
        return any(each.model != "extractive" for each in self.draft.summaries)

    @property
    def seconds(self) -> float:
        return sum(call.seconds for call in self.calls)

    @property
    def facts(self) -> dict[str, Any]:
        """What the page of a compaction begins with."""
        return {
            "model in it": self.is_models,
            "turns": self.turns,
            "score": round(self.draft.score, 4),
            "twin": round(self.twin.score, 4),
            "failed": self.draft.failed,
            "cpu_ms": round(self.cpu_ms, 1),
            "twin_cpu_ms": round(self.twin_cpu_ms, 1),
            "seconds": [round(call.seconds, 1) for call in self.calls],
        }


@dataclass(slots=True)
class Both:
    """Writes each draft twice, and gives back the one that the model was asked for.

    Both are asked for the same plan, on snapshots that have heard nothing yet, so that the time
    of one is not saved by the other.
    """

    model: Summarizer
    listening: Listening
    rows: list[Row] = field(default_factory=list)

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft:  # noqa: ARG002
        """As of ``Writer.best``."""
        last, asked = ExtractiveSummarizer(), len(self.listening.calls)
        twin, twin_ms = _timed([last], plan, counter)
        draft, ms = _timed([self.model, last], plan, counter)
        if plan.requests:
            calls, turns = self.listening.calls[asked:], sum(len(g.turns) for g in plan.covered)
            row = Row(
                turns=turns, draft=draft, twin=twin, cpu_ms=ms, twin_cpu_ms=twin_ms, calls=calls
            )
            self.rows.append(row)
        return draft


def _timed(summarizers: Sequence[Summarizer], plan: Plan, counter: Counter) -> tuple[Draft, float]:
    snapshot = replace(plan.snapshot, unelided=replace(plan.snapshot.before, memo={}), memo={})
    own = replace(plan, snapshot=snapshot)
    began = time.process_time()
    draft = Writer(lambda _policy: summarizers, TemplateLoader()).best(own, counter)
    return draft, 1e3 * (time.process_time() - began)


def played(session: Session, model: OpenAiSummarizer, options: Any, out: Path) -> list[Row]:
    """The session's compactions, written down as they come."""
    listening = Listening(model.setup.endpoint)
    both = Both(OpenAiSummarizer.of(replace(model.setup, endpoint=listening)), listening)
    counter = CountedOnce(counter_for("o200k_base"))
    policy = Policy(max_tokens=session.max_tokens, summarizer="openai", model=options.model)
    live = InMemorySession(
        policy, session.system, MeteredSummarizer(ExtractiveSummarizer(), counter)
    )
    live._writer = both  # type: ignore[assignment]
    for message in session.messages:
        if live.push(message):
            _write_rows(session, both.rows, options.model, out)
        if len(both.rows) >= options.compactions:
            break
    write_context(out / f"{session.name}.md", live.read())
    return both.rows


def _write_rows(session: Session, rows: Sequence[Row], model: str, out: Path) -> None:
    """The newest row as a page to read, and its calls as lines."""
    at, row = len(rows), rows[-1]
    parts = [f"{session.name}, {session.max_tokens} tokens, compaction {at}: {row.facts}"]
    for title, draft in (("With the model", row.draft), ("Extractive", row.twin)):
        parts += [f"# {title}", *(text_of(each) for each in render_head(draft.context))]
    for call in row.calls:
        parts += [
            f"# Answer, {call.seconds:.0f} s",
            call.answer.text if call.answer else call.error,
        ]
    (out / f"{session.name}.{at}.md").write_text("\n\n".join(parts) + "\n")
    where = {"session": session.name, "max_tokens": session.max_tokens, "compaction": at}
    with (out / "calls.jsonl").open("a") as lines:
        for call in row.calls:
            answer = asdict(call.answer) if call.answer else call.error
            told = {"prompt": asdict(call.prompt), "answer": answer, "seconds": call.seconds}
            lines.write(json.dumps(where | told, ensure_ascii=False, default=str) + "\n")
    answers = [[a.text, a.finish] for a in (call.answer for call in row.calls) if a]
    with (out / "answers.jsonl").open("a") as lines:
        lines.write(json.dumps({"model": model} | where | {"answers": answers}) + "\n")


def table(rows: Sequence[Row]) -> list[str]:
    """What the rows say together."""
    answers = [a for row in rows for a in (call.answer for call in row.calls) if a]
    models = sum(row.is_models for row in rows)
    below = sum(row.draft.score < row.twin.score for row in rows)
    failed = Tally(why for row in rows for why in row.draft.failed)
    return [
        "| | |\n|---|--:|",
        f"| compactions | {len(rows)} |",
        f"| with the model's words | {models} ({models / len(rows):.0%}) |",
        f"| score | {fmean(row.draft.score for row in rows):.3f} |",
        f"| score of the extractive twins | {fmean(row.twin.score for row in rows):.3f} |",
        f"| below the twin | {below} |",
        f"| CPU beside the model, median | {median(row.cpu_ms for row in rows):.1f} ms |",
        f"| CPU of the twin, median | {median(row.twin_cpu_ms for row in rows):.1f} ms |",
        f"| calls | {sum(len(row.calls) for row in rows)} |",
        f"| seconds of the model, a compaction | {fmean(row.seconds for row in rows):.0f} |",
        f"| tokens read, a call | {fmean(a.prompt_tokens for a in answers):.0f} |",
        f"| of them cached | {fmean(a.cached_tokens for a in answers):.0f} |",
        f"| tokens written, a call | {fmean(a.completion_tokens for a in answers):.0f} |",
        *(f"| not used: {why} | {times} |" for why, times in failed.most_common()),
        "",
        load_average(),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_model")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sessions", type=Path, help="a folder; else sessions are made")
    parser.add_argument("--most", type=int, default=12, help="sessions")
    parser.add_argument("--compactions", type=int, default=2, help="of a session, at most")
    parser.add_argument("--minutes", type=float, default=30, help="begin no session after them")
    parser.add_argument("--timeout-s", type=float, default=600, help="of a call")
    options = parser.parse_args()
    os.environ |= {"TURNMILL_MODEL_URL": options.url, "TURNMILL_MODEL_KEY": "none"}
    policy = Policy(summarizer="openai", model=options.model, model_timeout_s=options.timeout_s)
    model = Connected(load_settings(), None).summarizer(options.model, policy)
    counter = CountedOnce(counter_for("o200k_base"))
    sessions = (
        recorded(options.sessions, options.most, counter)
        if options.sessions
        else all_made(options.most)
    )
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    ends = time.monotonic() + 60 * options.minutes
    for session in sessions:
        if time.monotonic() < ends:
            rows += played(session, model, options, options.out)
    page = "\n".join(table(rows))
    (options.out / "table.md").write_text(f"{page}\n")
    print(page)


if __name__ == "__main__":
    main()
