"""Runs an evaluation: every data set, strategy and budget that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turnmill_cli.evaluate.economy import economy, joined
from turnmill_cli.evaluate.entities import VALUES
from turnmill_cli.evaluate.in_memory import POLICIES
from turnmill_cli.evaluate.methods import METHODS, Writing, method
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.planted_facts import host, probe
from turnmill_cli.evaluate.report import Evaluation
from turnmill_cli.evaluate.survival import DataSet, load, survival
from turnmill_cli.output import CommandFailed
from turnmill_cli.replay.performance import progress
from turnmill_worker.errors import SummarizerFailed
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.summarizers.openai.prices import Price, load_prices
from turnmill_worker.tokens import counter_for

__all__ = ["Wanted", "run"]

JOINED_TOKENS = 60_000
"""Sessions costs are computed for have at least so many, so that many compactions are needed."""

MOST_JOINED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to evaluate.

    Raises:
        CommandFailed: a value is out of its range, or names nothing.
    """

    files: tuple[Path, ...]
    budgets: tuple[float, ...]
    strategies: tuple[str, ...]
    summarizer: str
    ledger: float
    rounds: int
    limit: int | None
    values: str
    max_tokens: int
    model: str
    prices: Path | None
    probes: bool
    costs: bool

    def __post_init__(self) -> None:
        for share in self.budgets:
            if not 0 < share <= 1:
                raise CommandFailed(f"--budget {share:g} must lie in (0, 1]")
        for name in self.strategies:
            if name not in METHODS:
                raise CommandFailed(f"no strategy {name!r}: there are {', '.join(METHODS)}")
        if self.values and self.values not in VALUES:
            raise CommandFailed(f"--values must be one of {', '.join(VALUES)}")

    @property
    def probe_budget(self) -> float:
        """The middle budget."""
        return sorted(self.budgets)[len(self.budgets) // 2]

    def price(self) -> tuple[Price, str]:
        """Of the model, and the version of the table.

        Raises:
            CommandFailed: it is not known, or the file cannot be read.
        """
        try:
            table = load_prices(self.prices)
        except SummarizerFailed as error:
            raise CommandFailed(str(error)) from None
        price = table.of(self.model)
        if price is None:
            raise CommandFailed(
                f"no price for {self.model!r} in {table.version}: give one with --prices FILE"
            )
        return price, table.version


def run(wanted: Wanted, summarizer: Summarizer) -> Evaluation:
    """Measure all that is wanted.

    Raises:
        BadInput: a file cannot be read.
        CommandFailed: no price is known for the model.
    """
    counter = counter_for("o200k_base", "gpt-4o")
    writing = Writing(summarizer, counter, ledger=wanted.ledger)
    price, version = wanted.price()
    found = Evaluation(
        budgets=wanted.budgets,
        probe_budget=wanted.probe_budget,
        summarizer=wanted.summarizer,
        ledger=wanted.ledger,
        rounds=wanted.rounds,
        model=wanted.model,
        prices=version,
        basis=counter.basis,
    )
    sets = [load(path, values=wanted.values, limit=wanted.limit) for path in wanted.files]
    steps = len(sets) * len(wanted.strategies) * (len(wanted.budgets) + wanted.probes)
    with progress("evaluating", steps + len(sets) * wanted.costs) as on_steps:
        for data in sets:
            _survival(data, wanted, writing, found, on_steps)
            if wanted.probes:
                _probes(data, wanted, writing, found, on_steps)
            if wanted.costs:
                _costs(data, wanted, writing, price, found)
                on_steps(1)
    found.requests, found.refused = writing.requests, writing.refused
    found.cost_usd, found.unpriced = writing.cost_usd, writing.unpriced
    return found


OnSteps = Callable[[int], object]


def _survival(
    data: DataSet, wanted: Wanted, writing: Writing, found: Evaluation, on_steps: OnSteps
) -> None:
    by: dict[str, dict[str, list[Mean]]] = {}
    for strategy in wanted.strategies:
        for share in wanted.budgets:
            means = survival(
                data,
                method(strategy, writing),
                share,
                writing.counter.count,
                rounds=wanted.rounds,
            )
            own = by.setdefault(strategy, {metric: [] for metric in means})
            for metric, mean in means.items():
                own[metric].append(mean)
            on_steps(1)
    found.survival[data.name] = by


def _probes(
    data: DataSet, wanted: Wanted, writing: Writing, found: Evaluation, on_steps: OnSteps
) -> None:
    records = host(data, writing.counter.count)
    found.probes[data.name] = {}
    for strategy in wanted.strategies:
        found.probes[data.name][strategy] = probe(
            records, method(strategy, writing), wanted.probe_budget, writing.counter.count
        )
        on_steps(1)


def _costs(
    data: DataSet, wanted: Wanted, writing: Writing, price: Price, found: Evaluation
) -> None:
    sessions = joined(data, JOINED_TOKENS, writing.counter.count_messages)[:MOST_JOINED]
    own = {
        strategy: economy(sessions, strategy, wanted.max_tokens, writing, price)
        for strategy in wanted.strategies
        if strategy in POLICIES
    }
    if own:
        found.economy[data.name] = own
