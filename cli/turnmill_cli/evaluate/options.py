"""The options of `turnmill evaluate`: what to evaluate, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.evaluate.entities import VALUES
from turnmill_cli.evaluate.methods import METHODS
from turnmill_cli.exit_codes import WrongUsage

__all__ = ["BOARDS", "EvaluateOptions"]


BOARDS: Final = {"beam": False, "kit": False, "compint": True, "task": True, "telephone": True}
"""The boards, and whether each needs files of conversations."""


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What to evaluate.

    Raises:
        WrongUsage: a value is out of its range, or names nothing.
    """

    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE…]",
            help="JSONL files, or .jsonl.gz: each line is an object with `messages`, and `qa` if "
            "there are questions.",
            show_default=False,
        ),
    ] = None
    board: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Show these boards only: {', '.join(BOARDS)}. Several values may follow.",
            show_default=False,
        ),
    ] = None
    beam: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Show the board of these chats of BEAM: a checkout, or a part of one.",
        ),
    ] = None
    compint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The rules that the board compint plants: COMPINT's sssc.py.",
        ),
    ] = None
    contexts: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the boards' last contexts there, for people to read."
        ),
    ] = None
    budget: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the compacted tokens. Several values may follow.",
            show_default="0.1 0.2 0.4",
        ),
    ] = None
    strategies: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What to compare: {', '.join(METHODS)}. Several values may follow.",
            show_default="all",
        ),
    ] = None
    summarizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who writes the texts: extractive, openai, or a name that a package offers.",
        ),
    ] = OFFLINE
    ledger: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="The ledger's share of the budget."),
    ] = Policy().ledger_ratio
    rounds: Annotated[
        int, typer.Option(min=1, help="In how many compactions `rolling` makes its text.")
    ] = 4
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many conversations of a file.")
    ] = None
    values: Annotated[
        str,
        typer.Option(
            metavar="|".join(VALUES),
            help="Which values count as needed later. Without this option, the file's name "
            "decides, or else calls: the arguments of later calls.",
            show_default=False,
        ),
    ] = ""
    max_tokens: Annotated[
        int, typer.Option(min=512, help="The hard limit for which costs are computed.")
    ] = 8192
    model: Annotated[str, typer.Option(help="The model whose prices are used.")] = "gpt-4o"
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TURNMILL_MODEL_PRICES",
            help="A JSON file of prices, which come before list prices.",
        ),
    ] = None
    no_probes: Annotated[bool, typer.Option("--no-probes", help="Plant no facts.")] = False
    no_costs: Annotated[bool, typer.Option("--no-costs", help="Compute no costs.")] = False

    def __post_init__(self) -> None:
        for name in self.boards:
            if name not in BOARDS:
                raise WrongUsage(f"no board {name!r}: there are {', '.join(BOARDS)}")
        if not self.files and (not self.boards or any(BOARDS[name] for name in self.boards)):
            raise WrongUsage("give at least one file of conversations")
        for share in self.budgets:
            if not 0 < share <= 1:
                raise WrongUsage(f"--budget {share:g} must lie in (0, 1]")
        for name in self.methods:
            if name not in METHODS:
                raise WrongUsage(f"no strategy {name!r}: there are {', '.join(METHODS)}")
        if self.values and self.values not in VALUES:
            raise WrongUsage(f"--values must be one of {', '.join(VALUES)}")

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards to show, each once; none stands for the comparison of strategies."""
        return tuple(dict.fromkeys([*(["beam"] if self.beam else []), *(self.board or ())]))

    @property
    def budgets(self) -> tuple[float, ...]:
        """Shares of the compacted tokens."""
        return tuple(self.budget or (0.1, 0.2, 0.4))

    @property
    def probe_budget(self) -> float:
        """The middle budget."""
        return sorted(self.budgets)[len(self.budgets) // 2]

    @property
    def methods(self) -> tuple[str, ...]:
        """The strategies to compare, each once."""
        return tuple(dict.fromkeys(self.strategies or METHODS))
