"""What tokens cost: a small table, which a file of one's own can override."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnmill.cli.output import CommandFailed

__all__ = ["PRICES", "PRICES_VERSION", "Price", "load_prices", "price_of"]

_MILLION: Final = 1_000_000

PRICES_VERSION: Final = "2026-04"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens: read, read from the provider's prompt cache, written."""

    input: float
    cached_input: float
    output: float

    def cost(self, tokens: int, *, cached: int = 0, written: int = 0) -> float:
        """Dollars for so many tokens read, of them ``cached``, and so many written."""
        fresh = (tokens - cached) * self.input + cached * self.cached_input
        return (fresh + written * self.output) / _MILLION


PRICES: Final[Mapping[str, Price]] = {
    "gpt-4o": Price(2.50, 1.25, 10.00),
    "gpt-4o-mini": Price(0.15, 0.075, 0.60),
    "gpt-4.1": Price(2.00, 0.50, 8.00),
    "gpt-4.1-mini": Price(0.40, 0.10, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.025, 0.40),
}


def load_prices(path: Path | None) -> Mapping[str, Price]:
    """The table, overridden by a file's ``{model: {"input", "cached_input", "output"}}``.

    Raises:
        CommandFailed: the file cannot be read as such.
    """
    if path is None:
        return PRICES
    try:
        own = json.loads(path.read_bytes())
        found = {
            model: Price(*(float(price[name]) for name in ("input", "cached_input", "output")))
            for model, price in own.items()
        }
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandFailed(
            f'{path}: must be {{"model": {{"input": 2.5, "cached_input": 1.25, "output": 10}}}}, '
            "in dollars for a million tokens"
        ) from None
    return {**PRICES, **found}


def price_of(model: str, table: Mapping[str, Price]) -> Price:
    """The model's price.

    Raises:
        CommandFailed: there is none.
    """
    if model not in table:
        raise CommandFailed(f"no price for {model!r}: known are {', '.join(sorted(table))}")
    return table[model]
