"""``turnmill evaluate``: what survives compaction, at which price, for any strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from turnmill.contract.policy import OFFLINE
from turnmill_cli.evaluate import plot as plotting
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.options import BOARDS, EvaluateOptions
from turnmill_cli.evaluate.sheet import Sheet
from turnmill_cli.options import CommandApp, JsonFlag
from turnmill_cli.output import needing, print_json, print_note, print_text, stdout

__all__ = ["evaluate_app"]

evaluate_app = CommandApp(
    help="Measure what of recorded conversations survives compaction, and what it saves."
)

_SEVERAL: Mapping[str, Callable[[str], bool]] = {
    "--budget": lambda word: word.replace(".", "", 1).isdigit(),
    "--board": lambda word: word in BOARDS,
    "--strategies": lambda word: word.replace("+", "").isalpha(),
}
"""Options that take every word behind them that could be a value of theirs."""


class ManyValuesCommand(TyperCommand):
    """Takes ``--budget 0.1 0.2`` for ``--budget 0.1 --budget 0.2``, which is all click knows."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeated(args))


def _repeated(args: Sequence[str]) -> list[str]:
    words: list[str] = []
    several = ""
    for word in args:
        if several and words[-1] != several and _SEVERAL[several](word):
            words += [several, word]
            continue
        if words and words[-1] != several:
            several = ""
        several = word if word in _SEVERAL else several
        words.append(word)
    return words


@evaluate_app.command("evaluate", cls=ManyValuesCommand)
def evaluate(
    options: EvaluateOptions,
    as_json: JsonFlag = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables in Markdown.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a plot, as .png or .svg.")
    ] = None,
) -> None:
    """Measure what of recorded conversations survives compaction, and what it saves.

    Nothing is sent anywhere unless the summarizer is a model.
    """
    if options.boards:
        sheets = _boards(options)
        _print(sheets, [sheet.to_json() for sheet in sheets], as_json, as_markdown)
        return
    if plot is not None:
        plotting.check(plot)
    with needing("worker,evaluate"):  # but its help must not need them
        from turnmill_cli.evaluate.report import tables  # noqa: PLC0415
        from turnmill_cli.evaluate.run import run  # noqa: PLC0415
        from turnmill_cli.evaluate.summarizers import summarizer_of  # noqa: PLC0415
    writer = summarizer_of(options.summarizer)
    try:
        found = run(options, writer)
    finally:
        writer.close()
    if plot is not None:
        plotting.draw(found, plot)
        print_note(f"drawn: {plot}")
    _print(tables(found), found.to_json(), as_json, as_markdown)
    _tell_spent(found.writer, options.summarizer)


def _boards(options: EvaluateOptions) -> list[Sheet]:
    with needing("worker,evaluate"):
        from turnmill_cli.evaluate.boards.run import boards  # noqa: PLC0415
        from turnmill_cli.evaluate.summarizers import summarizer_of  # noqa: PLC0415
    writer = summarizer_of(options.summarizer)
    try:
        sheets, spent = boards(options, writer)
    finally:
        writer.close()
    _tell_spent(spent, options.summarizer)
    return sheets


def _tell_spent(spent: MeteredSummarizer, summarizer: str) -> None:
    if spent.refused:
        print_note(
            f"{spent.refused} of {spent.requests} texts were refused: they count as empty, and "
            "`rolling` goes on with its last text"
        )
    if summarizer != OFFLINE:
        unknown = f", and {spent.unpriced} without a known price" if spent.unpriced else ""
        print_note(f"spent on texts: ${spent.cost_usd:.4f}{unknown}")


def _print(sheets: Iterable[Sheet], found: Any, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        print_json(found)
        return
    for sheet in sheets:
        if as_markdown:
            print_text("\n".join([*sheet.markdown(), "", ""]))
        else:
            stdout().print(sheet.table())
