"""Prints what a real model adds to contexts, beside the extractive ones of the same turns.

    python -m benchmarks.real_model --url http://127.0.0.1:8215/v1 --model qwen1.5b --out FOLDER
        [--sessions FOLDER] [--most 12] [--compactions 2] [--minutes 30] [--again answers.jsonl]

FOLDER of --sessions holds conversations, one a line, in JSONL files or `.gz` of them; without it,
agent work is made from a seed. Each session is pushed turn by turn through the pipeline's stages in
memory; each compaction is written by the model and, for the same turns, without one. --out gets
each context, each request and answer (`calls.jsonl`), and the answers alone (`answers.jsonl`):
--again asks nobody and takes those.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.boards.common import write_context
from benchmarks.model_talks import load_average
from benchmarks.real_model.play import ModelOf, Row, played, recorded_answers, replayed
from benchmarks.real_model.sessions import Session, all_made, recorded
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill_cli.evaluate.measuring import text_of
from turnmill_worker.settings import load_settings
from turnmill_worker.summarizers.openai.summarizer import Connected, OpenAiSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for


def write_row(session: Session, at: int, row: Row, out: Path) -> None:
    """The row as pages to read, and its calls as lines."""
    facts = {
        "model's": row.is_models,
        "score": f"{row.draft.score:.4f}",
        "twin": f"{row.twin.score:.4f}",
        "parts": row.draft.quality and row.draft.quality.parts,
        "record": row.draft.record.model_dump_json(exclude={"session", "quality_parts"}),
        "cpu ms": f"{row.cpu_ms:.1f}, twin {row.twin_cpu_ms:.1f}",
    }
    parts = [f"{session.name}, {session.max_tokens} tokens, compaction {at}"]
    parts += [f"- {name}: {value}" for name, value in facts.items()]
    for title, draft in (("With the model", row.draft), ("Extractive", row.twin)):
        parts += [f"# {title}", *(text_of(each) for each in render_head(draft.context))]
    for call in row.calls:
        parts.append(f"# Answer after {call.seconds:.0f} s")
        parts.append(call.answer.text if call.answer else call.error)
    (out / f"{session.name}.{at}.md").write_text("\n\n".join(parts) + "\n")
    write_context(out / f"{session.name}.{at}.context.md", row.context)
    where = {"session": session.name, "max_tokens": session.max_tokens, "compaction": at}
    with (out / "calls.jsonl").open("a") as lines:
        for call in row.calls:
            came = asdict(call.answer) if call.answer else call.error
            told = {"prompt": asdict(call.prompt), "answer": came, "seconds": call.seconds}
            lines.write(json.dumps(where | told, ensure_ascii=False, default=str) + "\n")
    with (out / "answers.jsonl").open("a") as lines:
        for answer in (call.answer for call in row.calls if call.answer):
            own = where | {"finish": answer.finish, "text": answer.text}
            lines.write(json.dumps(own, ensure_ascii=False) + "\n")


def table(rows: Sequence[Row]) -> list[str]:
    """What the rows say together."""
    calls = [call for row in rows for call in row.calls]
    answers = [call.answer for call in calls if call.answer]
    own = sum(row.is_models for row in rows)
    below = sum(row.draft.score < row.twin.score for row in rows)
    failed = Counter(why for row in rows for why in row.draft.failed)
    items = Counter[str]()
    for row in rows:
        items.update(row.draft.items)
    return [
        "| | |\n|---|--:|",
        f"| compactions | {len(rows)} |",
        f"| with the model's words | {own} ({own / len(rows):.0%}) |",
        f"| score | {fmean(row.draft.score for row in rows):.3f} |",
        f"| score of the extractive twins | {fmean(row.twin.score for row in rows):.3f} |",
        f"| below the twin | {below} |",
        f"| CPU, median | {median(row.cpu_ms for row in rows):.1f} ms |",
        f"| CPU of the twin, median | {median(row.twin_cpu_ms for row in rows):.1f} ms |",
        f"| calls | {len(calls)} |",
        f"| seconds of a call | {fmean(call.seconds for call in calls):.0f} |",
        f"| tokens read in a call | {fmean(a.prompt_tokens for a in answers):.0f} |",
        f"| of them cached | {fmean(a.cached_tokens for a in answers):.0f} |",
        f"| tokens written in a call | {fmean(a.completion_tokens for a in answers):.0f} |",
        *(f"| items: {what} | {times} |" for what, times in items.most_common()),
        *(f"| not used: {why} | {times} |" for why, times in failed.most_common()),
        "",
        load_average(),
    ]


def model_of(options: Any) -> OpenAiSummarizer:
    """The model, asked as a worker with default settings would ask it."""
    os.environ |= {"TURNMILL_MODEL_URL": options.url, "TURNMILL_MODEL_KEY": "none"}
    policy = Policy(summarizer="openai", model=options.model, model_timeout_s=options.timeout_s)
    return Connected(load_settings(), None).summarizer(options.model, policy)


def chosen(options: Any) -> Iterator[tuple[Session, ModelOf]]:
    """The sessions that are wanted, each with whom to ask."""
    counter = CountedOnce(counter_for("o200k_base"))
    sessions = (
        recorded(options.sessions, options.most, options.max_tokens, counter)
        if options.sessions
        else all_made(options.most, options.max_tokens)
    )
    model = model_of(options)
    again = recorded_answers(options.again) if options.again else {}
    names = options.only or again or [session.name for session in sessions]
    for session in sessions:
        if again and session.name in again:
            max_tokens, answers = again[session.name]
            yield replace(session, max_tokens=max_tokens), replayed(answers, model)
        elif session.name in names:
            yield session, lambda _: model


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_model")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sessions", type=Path, help="a folder; else sessions are made")
    parser.add_argument("--most", type=int, default=12, help="sessions")
    parser.add_argument("--only", nargs="+", help="those of them with such names")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=(3_000, 3_500, 4_096))
    parser.add_argument("--compactions", type=int, default=2, help="of a session, at most")
    parser.add_argument("--minutes", type=float, default=30, help="begin no session after them")
    parser.add_argument("--again", type=Path, help="answers of an earlier run")
    parser.add_argument("--timeout-s", type=float, default=600, help="of a call")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    ends = time.monotonic() + 60 * options.minutes
    for session, asked in chosen(options):
        if time.monotonic() < ends:
            for at, row in enumerate(played(session, asked, options.compactions), 1):
                write_row(session, at, row, options.out)
                rows.append(row)
    page = "\n".join(table(rows))
    (options.out / "table.md").write_text(f"{page}\n")
    print(page)


if __name__ == "__main__":
    main()
