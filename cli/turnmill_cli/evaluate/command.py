"""``turnmill evaluate``: what of your conversations survives compaction, and what that saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from typer.core import TyperCommand

from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.options import CommandApp, JsonFlag
from turnmill_cli.output import (
    CommandFailed,
    WrongUsage,
    needing,
    print_json,
    print_line,
    print_note,
    print_text,
    stdout,
)
from turnmill_cli.progress import progress

if TYPE_CHECKING:
    from turnmill_cli.evaluate.measuring import Economy, MeteredSummarizer, Survival
    from turnmill_worker.ports.protocols import Summarizer
    from turnmill_worker.summarizers.openai.prices import Price

STRATEGIES: Final = ("rolling", "iterations", "window")
"""What can be compared."""

VALUES: Final = ("coding", "calls")
"""How values that are needed later are found."""

FORMAT: Final = 3
"""Of the JSON; raised when a field changes its meaning, or goes."""

JOINED_TOKENS: Final = 60_000
"""Sessions costs are computed for have at least so many, so that many compactions are needed."""

MOST_JOINED: Final = 4

evaluate_app = CommandApp(
    help="Measure what of recorded conversations survives compaction, and what it saves."
)


class _SeveralStrategies(TyperCommand):
    """Takes ``--strategies rolling window``: click knows only an option that is said twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        for word in args:
            is_another = words[-2:-1] == ["--strategies"] and word in STRATEGIES
            words += ["--strategies", word] if is_another else [word]
        return super().parse_args(ctx, words)


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What to evaluate.

    Raises:
        WrongUsage: a value names nothing.
    """

    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="JSONL files, or .jsonl.gz: each line is an object with `messages`, and `qa` if "
            "there are questions.",
            show_default=False,
        ),
    ]
    strategies: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What to compare: {', '.join(STRATEGIES)}. Several values may follow.",
            show_default="all",
        ),
    ] = None
    max_tokens: Annotated[
        int, typer.Option(min=512, help="The hard limit of the sessions' policy.")
    ] = 8192
    summarizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who writes the texts: extractive, openai, or a name that a package offers.",
        ),
    ] = OFFLINE
    ledger: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="The ledger's share of the summary's tokens."),
    ] = Policy().ledger_ratio
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many conversations of a file.")
    ] = None
    values: Annotated[
        str,
        typer.Option(
            metavar="|".join(VALUES),
            help="Which values count as needed later: paths and names of code, or the arguments of "
            "later calls.",
        ),
    ] = "calls"
    model: Annotated[str, typer.Option(help="The model whose prices are used.")] = "gpt-4o"
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TURNMILL_MODEL_PRICES",
            help="A JSON file of prices, which come before list prices.",
        ),
    ] = None
    pause: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long users take to go on: prompt caches expire meanwhile.",
        ),
    ] = 0.0
    no_costs: Annotated[bool, typer.Option("--no-costs", help="Compute no costs.")] = False

    def __post_init__(self) -> None:
        for name in self.compared:
            if name not in STRATEGIES:
                raise WrongUsage(f"no strategy {name!r}: there are {', '.join(STRATEGIES)}")
        if self.values not in VALUES:
            raise WrongUsage(f"--values must be one of {', '.join(VALUES)}")

    @property
    def compared(self) -> tuple[str, ...]:
        """The strategies to compare, each once."""
        return tuple(dict.fromkeys(self.strategies or STRATEGIES))


@evaluate_app.command("evaluate", cls=_SeveralStrategies)
def evaluate(
    options: EvaluateOptions,
    as_json: JsonFlag = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables in Markdown.")
    ] = False,
) -> None:
    """Measure what of recorded conversations survives compaction, and what it saves.

    They are played in memory, as if workers always kept up. Nothing is sent anywhere unless the
    summarizer is a model.
    """
    with needing("worker"):  # but its help must not need it
        from turnmill_cli.evaluate.measuring import summarizer_of  # noqa: PLC0415
    writer = summarizer_of(options.summarizer)
    try:
        found = _measured(options, writer)
    finally:
        writer.close()
    if as_json:
        print_json(found.to_json())
    for sheet in () if as_json else _tables(found):
        if as_markdown:
            print_text("\n".join([*sheet.markdown(), "", ""]))
        else:
            print_line(sheet.title, "bold")
            stdout().print(sheet.table())
            print_line(f"{sheet.caption}\n", "dim")
    _tell_spent(found.writer, options.summarizer)


def _tell_spent(spent: MeteredSummarizer, summarizer: str) -> None:
    if spent.refused:
        print_note(
            f"{spent.refused} of {spent.requests} texts were refused, and the ladder went on"
        )
    if summarizer != OFFLINE:
        unknown = f", and {spent.unpriced} without a known price" if spent.unpriced else ""
        print_note(f"spent on texts: ${spent.cost_usd:.4f}{unknown}")


# --- measuring ------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What was measured, by data set and strategy.

    Attributes:
        prices: the version of the table of prices.
        writer: the summarizer, with what it was asked and cost.
    """

    options: EvaluateOptions
    writer: MeteredSummarizer
    prices: str
    conversations: dict[str, int] = field(default_factory=dict)
    survival: dict[str, dict[str, Survival]] = field(default_factory=dict)
    economy: dict[str, dict[str, Economy]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it: each mean as its value and size."""
        survival = {
            name: {strategy: own.to_json() for strategy, own in by.items()}
            for name, by in self.survival.items()
        }
        economy = {
            name: {strategy: {**asdict(e), "saved": e.saved} for strategy, e in by.items()}
            for name, by in self.economy.items()
        }
        return {
            "format": FORMAT,
            "summarizer": self.options.summarizer,
            "ledger": self.options.ledger,
            "max_tokens": self.options.max_tokens,
            "basis": self.writer.counter.basis,
            "conversations": self.conversations,
            "survival": survival,
            "economy": {"model": self.options.model, "prices": self.prices, "data": economy},
            "requests": self.writer.requests,
            "refused": self.writer.refused,
            "cost_usd": self.writer.cost_usd,
            "unpriced": self.writer.unpriced,
        }


def _measured(options: EvaluateOptions, summarizer: Summarizer) -> Evaluation:
    """Every file and strategy that was asked for.

    Raises:
        BadInput: a file cannot be read.
        CommandFailed: no price is known for the model.
    """
    from turnmill_cli.evaluate import measuring  # noqa: PLC0415 - as above
    from turnmill_worker.tokens import CountedOnce, counter_for  # noqa: PLC0415

    counter = CountedOnce(counter_for("o200k_base", "gpt-4o"))
    writer = measuring.MeteredSummarizer(summarizer, counter, options.ledger)
    price, version = _price(options)
    found = Evaluation(options=options, writer=writer, prices=version)
    sets = [measuring.load(path, options.values, limit=options.limit) for path in options.files]
    compared, limit = options.compared, options.max_tokens
    steps = len(compared) * (1 if options.no_costs else 2)
    with progress("evaluating", len(sets) * steps) as on_steps:
        for data in sets:
            found.conversations[data.name] = len(data.conversations)
            kept = found.survival[data.name] = {}
            saved = {} if options.no_costs else found.economy.setdefault(data.name, {})
            joined = measuring.joined(data, JOINED_TOKENS, counter.count_messages)[:MOST_JOINED]
            for name in compared:
                kept[name] = measuring.survival(data, name, limit, writer)
                on_steps(1)
                if not options.no_costs:
                    saved[name] = measuring.economy(
                        joined, name, limit, writer, price, options.pause
                    )
                    on_steps(1)
    return found


def _price(options: EvaluateOptions) -> tuple[Price, str]:
    """Of the model, and the version of the table.

    Raises:
        CommandFailed: it is not known, or the file cannot be read.
    """
    from turnmill_worker.errors import SummarizerFailed  # noqa: PLC0415 - as above
    from turnmill_worker.summarizers.openai.prices import load_prices  # noqa: PLC0415

    try:
        table = load_prices(options.prices)
    except SummarizerFailed as error:
        raise CommandFailed(str(error)) from None
    price = table.of(options.model)
    if price is None:
        raise CommandFailed(
            f"no price for {options.model!r} in {table.version}: give one with --prices FILE"
        )
    return price, table.version


# --- tables ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sheet:
    """A table as a value, for a terminal or as Markdown; whole numbers and words are its cells.

    Attributes:
        columns: the first one names the rows.
        caption: lines below it, or ``""``.
    """

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str | int]] = field(default_factory=list)
    caption: str = ""

    def table(self) -> Table:
        """For a terminal; the title and the caption are lines around it, however narrow it is."""
        made = Table(pad_edge=False)
        for at, column in enumerate(self.columns):
            made.add_column(column, justify="right" if at else "left", no_wrap=True)
        for row in self.rows:
            made.add_row(*map(_shown, row))
        return made

    def markdown(self) -> Iterator[str]:
        """The lines of it in Markdown."""
        yield f"**{self.title}**"
        yield ""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|---|{'--:|' * (len(self.columns) - 1)}"
        for row in self.rows:
            yield f"| {' | '.join(map(_shown, row))} |"
        if self.caption:
            yield ""
            yield self.caption


def _shown(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _tables(found: Evaluation) -> Iterator[Sheet]:
    """What there is to show, none wider than 80 columns."""
    for name, by in found.survival.items():
        yield _survival(name, by, found)
    for name, economy in found.economy.items():
        yield _economy(name, economy, found)
        yield _billed(name, economy, found)


_MEANS: Final = {
    "answers": "of answers, the share that their evidence still states",
    "values": "of values that are needed later, the share that is still there",
    "all": "of conversations, the share with all of them",
}


def _survival(name: str, by: Mapping[str, Survival], found: Evaluation) -> Sheet:
    first = next(iter(by.values()))
    title = f"{name}: what survives at {found.options.max_tokens:,} tokens"
    made = Sheet(title, ["strategy", "compacted", *first.means])
    of = found.conversations[name]
    for strategy, own in by.items():
        made.rows.append((strategy, f"{own.compacted} of {of}", *map(str, own.means.values())))
    told = (f"{each}: {_MEANS[each]} (n {mean.n})" for each, mean in first.means.items())
    made.caption = "\n".join(told)
    return made


def _economy(name: str, by: Mapping[str, Economy], found: Evaluation) -> Sheet:
    title = f"{name}: sent to {found.options.model}, input at list price ({found.prices})"
    made = Sheet(title, ["strategy", "commits", "tokens", "saved", "prefix", "$"])
    full = next(iter(by.values()))
    made.rows.append(("nothing", 0, full.full_tokens, "0%", "", _usd(full.full_usd)))
    for strategy, own in by.items():
        usd, prefix = _usd(own.usd), f"{own.prefix:.3f}"
        row = (strategy, own.compactions, own.tokens, f"{own.saved:.0%}", prefix, usd)
        made.rows.append(row)
    return made


def _billed(name: str, by: Mapping[str, Economy], found: Evaluation) -> Sheet:
    pause = f", users answer after {found.options.pause:g} s" if found.options.pause else ""
    full = next(iter(by.values())).full_billed
    made = Sheet(f"{name}: the same in $ by rules of prompt caches{pause}", ["strategy", *full])
    made.rows.append(("nothing", *map(_usd, full.values())))
    for strategy, own in by.items():
        made.rows.append((strategy, *map(_usd, own.billed.values())))
    made.caption = "With what is written to caches, and with the summarizer."
    return made


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.4f}"
