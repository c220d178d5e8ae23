"""Boards: what a context still says after many compactions, one table for each question.

    python -m benchmarks.boards work [--seeds 1,2] [--kinds invoices,alerts]
    python -m benchmarks.boards beam FOLDER | kit | compint SSSC.PY FILE… | task FILE…
    python -m benchmarks.boards telephone FILE… | facts FILE…

A board looks at the context that an agent reads, after all stages of the pipeline, with baselines
of as many tokens below it. FILE is a file of conversations; docs/evaluation.md tells the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.boards.beam import beam_board, beam_chats
from benchmarks.boards.common import Sheet
from benchmarks.boards.compint import compint_board, constraints
from benchmarks.boards.kit import kit_board
from benchmarks.boards.planted_facts import facts_board
from benchmarks.boards.task import task_board
from benchmarks.boards.telephone import telephone_board
from benchmarks.boards.work import KINDS, work_boards
from benchmarks.survival import data_set
from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.evaluate.measuring import DataSet, MeteredSummarizer, summarizer_of
from turnmill_worker.tokens import CountedOnce, counter_for


def beam(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    policy = Policy(max_tokens=options.max_tokens, ledger_ratio=options.ledger)
    chats = beam_chats(options.files[0], options.limit)
    return [beam_board(chats, policy, metered, options.contexts)]


def kit(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    return kit_board(options.budget or (0.1, 0.2, 0.3), metered)


def compint(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    rules, shares = constraints(options.files.pop(0)), options.budget or (0.2, 0.1, 0.05)
    return [compint_board(data, rules, shares, metered) for data in _data(options)]


def task(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    limit, contexts = options.max_tokens, options.contexts
    return [task_board(data, limit, metered, contexts) for data in _data(options)]


def telephone(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    shares = options.budget or (0.2,)
    return [telephone_board(d, share, metered) for d in _data(options) for share in shares]


def facts(options: Any, metered: MeteredSummarizer) -> list[Sheet]:
    shares = options.budget or (0.2,)
    return [
        each for d in _data(options) for share in shares for each in facts_board(d, share, metered)
    ]


def _data(options: Any) -> Iterator[DataSet]:
    return (data_set(path, options.values, options.limit) for path in options.files)


BOARDS: Final[dict[str, Callable[[Any, MeteredSummarizer], list[Sheet]]]] = {
    each.__name__: each for each in (beam, kit, compint, task, telephone, facts)
}


def main() -> None:
    """Print the tables of a board in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards")
    parser.add_argument("board", choices=["work", *BOARDS])
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--budget", type=float, nargs="+", help="shares of the tokens")
    parser.add_argument("--limit", type=int, help="only the first so many of a file or folder")
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--ledger", type=float, default=Policy().ledger_ratio)
    parser.add_argument("--values", default="", help="else the file's name says it")
    parser.add_argument("--summarizer", default=OFFLINE)
    parser.add_argument("--contexts", type=Path, help="write contexts there, and what is lost")
    parser.add_argument("--seeds", default="1", help="of work, such as 1,2")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of work")
    options = parser.parse_args()
    if options.board == "work":
        seeds = [int(seed) for seed in options.seeds.split(",")]
        work_boards(seeds, options.kinds.split(","), options.contexts)
        return
    if options.board != "kit" and not options.files:
        parser.error("give at least one FILE")
    writer = summarizer_of(options.summarizer)
    counter = CountedOnce(counter_for("o200k_base", "gpt-4o"))
    sheets = BOARDS[options.board](options, MeteredSummarizer(writer, counter, options.ledger))
    for sheet in sheets:
        print("\n".join([*sheet.markdown(), "", ""]))
    if options.contexts is not None:
        options.contexts.mkdir(parents=True, exist_ok=True)
        lost = (f"{line}\n" for sheet in sheets for line in sheet.lost)
        (options.contexts / "lost.txt").write_text("".join(lost))
    writer.close()


if __name__ == "__main__":
    main()
