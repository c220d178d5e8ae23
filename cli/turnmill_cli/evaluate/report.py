"""An evaluation as a value, as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.table import Table

from turnmill_cli.evaluate.economy import Economy
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.planted_facts import KINDS, Probes

__all__ = ["Evaluation", "tables"]

FORMAT: Final = 1
"""Of the JSON; raised when a field changes its meaning."""


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What was measured, by data set and strategy.

    Attributes:
        budgets: shares of the compacted tokens.
        survival: by data set, strategy and metric: a mean per budget.
        probes: of planted facts, at ``probe_budget``.
        economy: of the strategies that are ladders of the pipeline's.
        refused: of ``requests`` to the summarizer, texts that could not be used.
        cost_usd: of all requests whose price is known, refused texts included.
        unpriced: requests whose cost is not known.
    """

    budgets: Sequence[float]
    probe_budget: float
    summarizer: str
    ledger: float
    rounds: int
    model: str
    prices: str
    basis: str
    survival: dict[str, dict[str, dict[str, list[Mean]]]] = field(default_factory=dict)
    probes: dict[str, dict[str, Probes]] = field(default_factory=dict)
    economy: dict[str, dict[str, Economy]] = field(default_factory=dict)
    requests: int = 0
    refused: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "format": FORMAT,
            "summarizer": self.summarizer,
            "ledger": self.ledger,
            "rounds": self.rounds,
            "basis": self.basis,
            "budgets": list(self.budgets),
            "survival": {
                name: {
                    strategy: {metric: [_mean(m) for m in means] for metric, means in own.items()}
                    for strategy, own in by.items()
                }
                for name, by in self.survival.items()
            },
            "probes": {
                "budget": self.probe_budget,
                "data": {
                    name: {strategy: _probes(found) for strategy, found in by.items()}
                    for name, by in self.probes.items()
                },
            },
            "economy": {
                "model": self.model,
                "prices": self.prices,
                "data": {
                    name: {s: {**asdict(e), "saved": e.saved} for s, e in by.items()}
                    for name, by in self.economy.items()
                },
            },
            "requests": self.requests,
            "refused": self.refused,
            "cost_usd": self.cost_usd,
            "unpriced": self.unpriced,
        }


def _mean(mean: Mean) -> dict[str, Any]:
    return {"value": mean.value, "n": mean.n}


def _probes(found: Probes) -> dict[str, Any]:
    return {
        "present": {kind: _mean(mean) for kind, mean in found.present.items()},
        "associated": {kind: _mean(mean) for kind, mean in found.associated.items()},
        "by_compactions": {str(n): _mean(mean) for n, mean in found.by_compactions.items()},
    }


# --- tables -------------------------------------------------------------------------------------


def tables(found: Evaluation) -> Iterator[Table]:
    """What there is to show, none wider than 80 columns."""
    for name, by in found.survival.items():
        yield _survival(name, by, found)
    for name, probes in found.probes.items():
        yield _by_kind(name, probes, found)
        yield _by_compactions(name, probes, found)
    for name, economy in found.economy.items():
        yield _economy(name, economy, found)


def _table(title: str, columns: Sequence[str]) -> Table:
    made = Table(title=title, title_justify="left", pad_edge=False)
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", no_wrap=True)
    return made


def _survival(
    name: str, by: Mapping[str, Mapping[str, Sequence[Mean]]], found: Evaluation
) -> Table:
    shares = " / ".join(f"{share:.0%}" for share in found.budgets)
    metrics = list(next(iter(by.values())))
    made = _table(f"{name}: what survives at {shares} of the tokens", ["strategy", *metrics])
    for strategy, own in by.items():
        cells = ("/".join(_cell(mean) for mean in own[metric]) for metric in metrics)
        made.add_row(strategy, *cells)
    sizes = ", ".join(f"{metric} {means[0].n}" for metric, means in next(iter(by.values())).items())
    made.caption = f"n: {sizes}"
    made.caption_justify = "left"
    return made


def _by_kind(name: str, by: Mapping[str, Probes], found: Evaluation) -> Table:
    title = f"{name}: planted facts kept with what they are about, at {found.probe_budget:.0%}"
    made = _table(title, ["kind", *by])
    for kind in KINDS:
        cells = [
            _cell(probes.associated[kind]) for probes in by.values() if kind in probes.associated
        ]
        made.add_row(kind, *cells)
    return made


def _by_compactions(name: str, by: Mapping[str, Probes], found: Evaluation) -> Table:
    rounds = sorted({n for probes in by.values() for n in probes.by_compactions})
    title = f"{name}: the same by how many compactions they went through"
    made = _table(title, ["strategy", *map(str, rounds)])
    for strategy, probes in by.items():
        cells = (_cell(probes.by_compactions.get(n, Mean())) for n in rounds)
        made.add_row(strategy, *cells)
    if "rolling" in by:
        made.caption = f"only rolling compacts its own text again ({found.summarizer})"
        made.caption_justify = "left"
    return made


def _economy(name: str, by: Mapping[str, Economy], found: Evaluation) -> Table:
    title = f"{name}: sent to {found.model}, input at list price ({found.prices})"
    made = _table(title, ["strategy", "commits", "tokens", "saved", "prefix", "$", "$ cached"])
    full = next(iter(by.values()))
    made.add_row(
        "nothing", "0", f"{full.full_tokens:,}", "0%", "", _usd(full.full_usd),
        _usd(full.full_usd_cached),
    )  # fmt: skip
    for strategy, own in by.items():
        made.add_row(
            strategy,
            f"{own.compactions:,}",
            f"{own.tokens:,}",
            f"{own.saved:.0%}",
            f"{own.prefix:.3f}",
            _usd(own.usd),
            _usd(own.usd_cached),
        )
    return made


def _cell(mean: Mean) -> str:
    if mean.value is None:
        return "-"
    return "1.0" if mean.value > 0.995 else f"{mean.value:.2f}"[1:]  # noqa: PLR2004 - as it rounds


def _usd(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.4f}"
