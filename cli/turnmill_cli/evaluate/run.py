"""Runs an evaluation: every data set, strategy and budget that was asked for."""

from __future__ import annotations

from collections.abc import Callable

from turnmill_cli.evaluate.boards.squeezed import Played
from turnmill_cli.evaluate.economy import economy, joined
from turnmill_cli.evaluate.in_memory import POLICIES
from turnmill_cli.evaluate.methods import MeteredSummarizer, method
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.options import EvaluateOptions
from turnmill_cli.evaluate.planted_facts import probe, real_turns
from turnmill_cli.evaluate.report import Evaluation
from turnmill_cli.evaluate.survival import DataSet, load, survival
from turnmill_cli.output import CommandFailed
from turnmill_cli.progress import progress
from turnmill_worker.errors import SummarizerFailed
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.summarizers.openai.prices import Price, load_prices
from turnmill_worker.tokens import counter_for

__all__ = ["run"]

JOINED_TOKENS = 60_000
"""Sessions costs are computed for have at least so many, so that many compactions are needed."""

MOST_JOINED = 4


def run(options: EvaluateOptions, summarizer: Summarizer) -> Evaluation:
    """Measure all that was asked for.

    Raises:
        BadInput: a file cannot be read.
        CommandFailed: no price is known for the model.
    """
    writer = MeteredSummarizer(summarizer, counter_for("o200k_base", "gpt-4o"), options.ledger)
    price, version = _price(options)
    found = Evaluation(options=options, writer=writer, prices=version)
    sets = [load(path, values=options.values, limit=options.limit) for path in options.files or ()]
    probes, costs = not options.no_probes, not options.no_costs
    steps = len(options.methods) * (len(options.budgets) + probes) + costs
    with progress("evaluating", len(sets) * steps) as on_steps:
        for data in sets:
            _survival(data, found, on_steps)
            if probes:
                _probes(data, found, on_steps)
            if costs:
                _costs(data, price, found)
                on_steps(1)
    return found


def _price(options: EvaluateOptions) -> tuple[Price, str]:
    """Of the model, and the version of the table.

    Raises:
        CommandFailed: it is not known, or the file cannot be read.
    """
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


OnSteps = Callable[[int], object]


def _survival(data: DataSet, found: Evaluation, on_steps: OnSteps) -> None:
    options, count = found.options, found.writer.counter.count
    by: dict[str, dict[str, list[Mean]]] = {}
    for strategy in options.methods:
        for share in options.budgets:
            shorten = method(strategy, found.writer)
            means = survival(data, shorten, share, count, rounds=options.rounds)
            own = by.setdefault(strategy, {metric: [] for metric in means})
            for metric, mean in means.items():
                own[metric].append(mean)
            on_steps(1)
    found.survival[data.name] = by


def _probes(data: DataSet, found: Evaluation, on_steps: OnSteps) -> None:
    options, count = found.options, found.writer.counter.count
    records = real_turns(data, count)
    found.probes[data.name] = {}
    for strategy in options.methods:
        # Rules stand outside of any text, so a text alone would not show them.
        whole = strategy == "rolling"
        shorten = Played(found.writer) if whole else method(strategy, found.writer)
        found.probes[data.name][strategy] = probe(records, shorten, options.probe_budget, count)
        on_steps(1)


def _costs(data: DataSet, price: Price, found: Evaluation) -> None:
    options, writer = found.options, found.writer
    sessions = joined(data, JOINED_TOKENS, writer.counter.count_messages)[:MOST_JOINED]
    own = {
        strategy: economy(sessions, strategy, options.max_tokens, writer, price)
        for strategy in options.methods
        if strategy in POLICIES
    }
    if own:
        found.economy[data.name] = own
