"""``turnmill evaluate``: what survives compaction, at which price, for any strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.output import CommandFailed

if TYPE_CHECKING:
    from turnmill_cli.evaluate.model_retries import Patient
    from turnmill_cli.evaluate.report import Evaluation

__all__ = ["register"]


def _writer(name: str) -> Patient:
    """The summarizer of this name, as a worker with the same environment has it."""
    from turnmill_cli.evaluate.model_retries import summarizer_of  # noqa: PLC0415
    from turnmill_worker.errors import InvalidSettings  # noqa: PLC0415
    from turnmill_worker.settings import load_settings  # noqa: PLC0415

    try:
        return summarizer_of(name, load_settings())
    except InvalidSettings as error:
        raise CommandFailed(str(error)) from None


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="JSONL, or .gz of it: an object with `messages` in each line, and `qa` if it has any.",
    ),
]
Budgets = Annotated[
    list[float],
    typer.Option("--budget", metavar="SHARE", help="Of the compacted tokens; several may follow."),
]
Strategies = Annotated[
    list[str],
    typer.Option("--strategies", metavar="NAME", help="What to compare; several may follow."),
]
SummarizerName = Annotated[str, typer.Option("--summarizer", metavar="NAME", help="Who writes.")]
Ledger = Annotated[
    float,
    typer.Option("--ledger", min=0, max=0.9, help="As `Policy.ledger_ratio`: share of the budget."),
]
Rounds = Annotated[int, typer.Option(min=1, help="Compactions `rolling` makes of the records.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only a file's first conversations.")]
Values = Annotated[
    str,
    typer.Option(
        metavar="tau|coding|calls",
        help="Which values count as needed later; by default by the file's name, else call "
        "arguments.",
        show_default=False,
    ),
]
MaxTokens = Annotated[int, typer.Option(min=512, help="The hard limit costs are computed for.")]
Model = Annotated[str, typer.Option(help="Whose prices costs are computed with.")]
Prices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="TURNMILL_MODEL_PRICES",
        help="JSON with prices that come before list prices.",
    ),
]
NoProbes = Annotated[bool, typer.Option("--no-probes", help="Plant no facts.")]
NoCosts = Annotated[bool, typer.Option("--no-costs", help="Compute no costs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a .png or .svg.")]


_SEVERAL: Mapping[str, Callable[[str], bool]] = {
    "--budget": lambda word: word.replace(".", "", 1).isdigit(),
    "--strategies": lambda word: word.isalpha(),
}
"""Options that take every word behind them that could be a value of theirs."""


class _Command(TyperCommand):
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="evaluate", cls=_Command)(evaluate)


def evaluate(
    files: Files,
    *,
    budget: Budgets = [0.1, 0.2, 0.4],  # noqa: B006 - typer copies it
    strategies: Strategies = ["rolling", "extract", "iterations", "window"],  # noqa: B006
    summarizer: SummarizerName = OFFLINE,
    ledger: Ledger = Policy().ledger_ratio,
    rounds: Rounds = 4,
    limit: Limit = None,
    values: Values = "",
    max_tokens: MaxTokens = 8192,
    model: Model = "gpt-4o",
    prices: Prices = None,
    no_probes: NoProbes = False,
    no_costs: NoCosts = False,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Measure what of recorded conversations survives compaction, and what it saves.

    Nothing is sent anywhere unless the summarizer is a model.
    """
    from turnmill_cli.conversations import BadInput  # noqa: PLC0415
    from turnmill_cli.evaluate import plot as plotting  # noqa: PLC0415
    from turnmill_cli.evaluate.report import tables  # noqa: PLC0415
    from turnmill_cli.evaluate.run import Wanted, run  # noqa: PLC0415
    from turnmill_cli.output import print_json, print_note, stdout  # noqa: PLC0415

    if plot is not None:
        plotting.check(plot)
    wanted = Wanted(
        files=tuple(files),
        budgets=tuple(budget),
        strategies=tuple(dict.fromkeys(strategies)),
        summarizer=summarizer,
        ledger=ledger,
        rounds=rounds,
        limit=limit,
        values=values,
        max_tokens=max_tokens,
        model=model,
        prices=prices,
        probes=not no_probes,
        costs=not no_costs,
    )
    writer = _writer(summarizer)
    try:
        found: Evaluation = run(wanted, writer)
    except BadInput as error:
        raise CommandFailed(str(error)) from None
    finally:
        writer.close()
    if plot is not None:
        plotting.draw(found, plot)
        print_note(f"drawn: {plot}")
    if as_json:
        print_json(found.to_json())
        return
    for table in tables(found):
        stdout().print(table)
    if found.refused:
        print_note(
            f"{found.refused} of {found.requests} texts refused: they count as empty, and "
            "`rolling` goes on with its last one"
        )
    if summarizer != OFFLINE:
        unknown = f", and {found.unpriced} without a known price" if found.unpriced else ""
        print_note(f"spent on texts: ${found.cost_usd:.4f}{unknown}")
