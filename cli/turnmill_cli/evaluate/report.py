"""An evaluation as a value, as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from turnmill_cli.evaluate.economy import Economy
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.options import EvaluateOptions
from turnmill_cli.evaluate.planted_facts import KINDS, Probes
from turnmill_cli.evaluate.sheet import Sheet, cell, plain

__all__ = ["Evaluation", "tables"]

FORMAT: Final = 1
"""Of the JSON; raised when a field changes its meaning."""


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What was measured, by data set and strategy.

    Attributes:
        prices: the version of the table of prices.
        survival: by data set, strategy and metric: a mean per budget.
        probes: of planted facts, at the options' ``probe_budget``.
        economy: of the strategies that are ladders of the pipeline's.
        writer: the summarizer, with what it was asked and cost.
    """

    options: EvaluateOptions
    writer: MeteredSummarizer
    prices: str
    survival: dict[str, dict[str, dict[str, list[Mean]]]] = field(default_factory=dict)
    probes: dict[str, dict[str, Probes]] = field(default_factory=dict)
    economy: dict[str, dict[str, Economy]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        economy = {
            name: {strategy: {**asdict(e), "saved": e.saved} for strategy, e in by.items()}
            for name, by in self.economy.items()
        }
        found = {
            "format": FORMAT,
            "summarizer": self.options.summarizer,
            "ledger": self.options.ledger,
            "rounds": self.options.rounds,
            "basis": self.writer.counter.basis,
            "budgets": list(self.options.budgets),
            "survival": self.survival,
            "probes": {"budget": self.options.probe_budget, "data": self.probes},
            "economy": {"model": self.options.model, "prices": self.prices, "data": economy},
            "requests": self.writer.requests,
            "refused": self.writer.refused,
            "cost_usd": self.writer.cost_usd,
            "unpriced": self.writer.unpriced,
        }
        as_json: dict[str, Any] = plain(found)
        return as_json


# --- tables -------------------------------------------------------------------------------------


def tables(found: Evaluation) -> Iterator[Sheet]:
    """What there is to show, none wider than 80 columns."""
    for name, by in found.survival.items():
        yield _survival(name, by, found)
    for name, probes in found.probes.items():
        yield _by_kind(name, probes, found)
        yield _by_compactions(name, probes, found)
    for name, economy in found.economy.items():
        yield _economy(name, economy, found)


def _survival(
    name: str, by: Mapping[str, Mapping[str, Sequence[Mean]]], found: Evaluation
) -> Sheet:
    shares = " / ".join(f"{share:.0%}" for share in found.options.budgets)
    metrics = list(next(iter(by.values())))
    made = Sheet(f"{name}: what survives at {shares} of the tokens", ["strategy", *metrics])
    for strategy, own in by.items():
        cells = ("/".join(cell(mean) for mean in own[metric]) for metric in metrics)
        made.rows.append((strategy, *cells))
    sizes = ", ".join(f"{metric} {means[0].n}" for metric, means in next(iter(by.values())).items())
    made.caption = f"n: {sizes}"
    return made


def _by_kind(name: str, by: Mapping[str, Probes], found: Evaluation) -> Sheet:
    title = (
        f"{name}: planted facts kept with what they are about, at {found.options.probe_budget:.0%}"
    )
    made = Sheet(title, ["kind", *by])
    for kind in KINDS:
        cells = [
            cell(probes.associated[kind]) for probes in by.values() if kind in probes.associated
        ]
        made.rows.append((kind, *cells))
    return made


def _by_compactions(name: str, by: Mapping[str, Probes], found: Evaluation) -> Sheet:
    rounds = sorted({n for probes in by.values() for n in probes.by_compactions})
    title = f"{name}: the same by how many compactions they went through"
    made = Sheet(title, ["strategy", *map(str, rounds)])
    for strategy, probes in by.items():
        cells = (cell(probes.by_compactions.get(n, Mean())) for n in rounds)
        made.rows.append((strategy, *cells))
    if "rolling" in by:
        made.caption = f"only rolling compacts its own text again ({found.options.summarizer})"
    return made


def _economy(name: str, by: Mapping[str, Economy], found: Evaluation) -> Sheet:
    title = f"{name}: sent to {found.options.model}, input at list price ({found.prices})"
    made = Sheet(title, ["strategy", "commits", "tokens", "saved", "prefix", "$", "$ cached"])
    full = next(iter(by.values()))
    usd, cached = _usd(full.full_usd), _usd(full.full_usd_cached)
    made.rows.append(("nothing", 0, full.full_tokens, "0%", "", usd, cached))
    for strategy, own in by.items():
        usd, cached, prefix = _usd(own.usd), _usd(own.usd_cached), f"{own.prefix:.3f}"
        row = (strategy, own.compactions, own.tokens, f"{own.saved:.0%}", prefix, usd, cached)
        made.rows.append(row)
    return made


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.4f}"
