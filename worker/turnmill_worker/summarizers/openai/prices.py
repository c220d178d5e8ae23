"""What tokens cost: a small table with a date, which a file of the user's overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.answers import Answer

__all__ = ["Price", "Prices", "load_prices"]

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
_MILLION = 1e6


class Price(BaseModel):
    """US dollars per million tokens; cached input costs as much as other input unless it says.

    Attributes:
        batch_share: of these prices, what a batch costs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    batch_share: float = Field(default=0.5, ge=0, le=1)

    def cost(self, tokens: int, *, cached: int = 0, written: int = 0) -> float:
        """Dollars for so many tokens read, of them so many ``cached``, and so many written."""
        cached = min(cached, tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens - cached) * self.input + cached * cached_price
        return (fresh + written * self.output) / _MILLION


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str = ""
    source: str = ""
    usd_per_million_tokens: dict[str, Price]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model; a model with a date in its name costs what the one without it does.

    Attributes:
        version: of the table, a date; with ``+`` and the file's own where one overrides it.
        own: the file's, which come before all of the table.
    """

    version: str
    by_model: Mapping[str, Price]
    own: Mapping[str, Price] = field(default_factory=dict)

    def spent(self, answer: Answer, asked: str) -> Spent:
        """What an answer cost; ``asked`` is the model's name where the endpoint gives another."""
        price = self.of(answer.model, asked)
        return Spent(
            calls=1,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cost_usd=None if price is None or not answer.has_usage else _cost(price, answer),
        )

    def of(self, *names: str) -> Price | None:
        """The price of the model that goes by these names, or None when it is not known."""
        every = [spelled for name in names for spelled in (name, _DATED.sub("", name))]
        known = (
            table[name] for table in (self.own, self.by_model) for name in every if name in table
        )
        return next(known, None)


def load_prices(override: Path | None = None) -> Prices:
    """The table that comes with turnmill, with the file's prices over it.

    Raises:
        SummarizerMisconfigured: the file cannot be read, or is not of the table's shape.
    """
    own = resources.files(__package__).joinpath("prices.json").read_text(encoding="utf-8")
    table = _Table.model_validate_json(own)
    if override is None:
        return Prices(table.version, table.usd_per_million_tokens)
    try:
        given = _Table.model_validate(json.loads(override.expanduser().read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        raise SummarizerMisconfigured(
            f"prices {override}: {type(error).__name__}; the file needs usd_per_million_tokens: "
            '{"<model>": {"input": …, "output": …, "cached_input": …}}'
        ) from None
    version = f"{table.version}+{given.version or override.name}"
    return Prices(version, table.usd_per_million_tokens, given.usd_per_million_tokens)


def _cost(price: Price, answer: Answer) -> float:
    whole = price.cost(
        answer.prompt_tokens, cached=answer.cached_tokens, written=answer.completion_tokens
    )
    return whole * (price.batch_share if answer.batched else 1.0)
