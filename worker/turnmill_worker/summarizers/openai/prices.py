"""What tokens cost: list prices as genai-prices knows them, and a file of the user's over them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import genai_prices
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import PriceCalculation
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.endpoint import Answer

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
_MILLION = 1e6
_OPENAI: Final = "openai"


class Price(BaseModel):
    """US dollars per million tokens; cached input costs as much as other input by default.

    Attributes:
        batch_share: the share of these prices that a batch costs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    batch_share: float = Field(default=0.5, ge=0, le=1)

    def cost(self, tokens: int, *, cached: int = 0, written: int = 0) -> float:
        """Dollars for these tokens: read, ``cached`` of them from a cache, and ``written``."""
        cached = min(cached, tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens - cached) * self.input + cached * cached_price
        return (fresh + written * self.output) / _MILLION


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str = ""
    source: str = ""
    usd_per_million_tokens: dict[str, Price]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model; a model with a date in its name costs what the one without it does.

    Attributes:
        version: of the list; with ``+`` and the file's own if a file overrides it.
        own: the file's prices, which override those of the list.
        provider: whose list prices are meant, by its name in genai-prices.
    """

    version: str
    own: Mapping[str, Price] = field(default_factory=dict)
    provider: str = _OPENAI

    def spent(self, answer: Answer, asked: str) -> Spent:
        """What an answer cost; ``asked`` is the model's name where the endpoint gives another."""
        return Spent(
            calls=1,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cost_usd=self._cost(answer, asked) if answer.has_usage else None,
        ).of(asked)

    def of(self, *names: str) -> Price | None:
        """The price of the model that goes by these names, or None when it is not known.

        Of a list price that rises with the length of a prompt, the one for short prompts.
        """
        own = self._own(*names)
        listed = None if own else self._listed(*names)
        if listed is None:
            return own
        price = listed.model_price
        return Price(
            input=_base(price.input_mtok),
            output=_base(price.output_mtok),
            cached_input=price.cache_read_mtok and _base(price.cache_read_mtok),
        )

    def _cost(self, answer: Answer, asked: str) -> float | None:
        read, written = answer.prompt_tokens, answer.completion_tokens
        cached = min(answer.cached_tokens, read)
        if own := self._own(answer.model, asked):
            whole = own.cost(read, cached=cached, written=written)
            return whole * own.batch_share if answer.batched else whole
        listed = self._listed(
            answer.model,
            asked,
            usage={"input_tokens": read, "cache_read_tokens": cached, "output_tokens": written},
            batched=answer.batched,
        )
        return None if listed is None else float(listed.total_price)

    def _own(self, *names: str) -> Price | None:
        return next((self.own[name] for name in _spelled(names) if name in self.own), None)

    def _listed(
        self, *names: str, usage: Mapping[str, int] | None = None, batched: bool = False
    ) -> PriceCalculation | None:
        for name in _spelled(names):
            with suppress(LookupError):
                found = genai_prices.calc_price(
                    usage or {},
                    name,
                    provider_id=self.provider,
                    price_context={"processing": "batch"} if batched else None,
                )
                price = found.model_price
                if price.input_mtok is not None and price.output_mtok is not None:
                    return found
        return None


def load_prices(override: Path | None = None, *, url: str = "") -> Prices:
    """List prices of the provider at this URL, else of OpenAI, with the file's prices over them.

    Raises:
        SummarizerMisconfigured: the file cannot be read, or is not of the right shape.
    """
    version, provider = f"genai-prices {genai_prices.__version__}", _OPENAI
    with suppress(LookupError):
        provider = get_snapshot().find_provider(None, None, url).id
    if override is None:
        return Prices(version, provider=provider)
    try:
        given = _File.model_validate(json.loads(override.expanduser().read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        raise SummarizerMisconfigured(
            f"prices {override}: {type(error).__name__}; the file needs usd_per_million_tokens: "
            '{"<model>": {"input": …, "output": …, "cached_input": …}}'
        ) from None
    version += f"+{given.version or override.name}"
    return Prices(version, given.usd_per_million_tokens, provider)


def _spelled(names: tuple[str, ...]) -> list[str]:
    return [spelled for name in names for spelled in (name, _DATED.sub("", name))]


def _base(price: Any) -> float:
    """A list price per million tokens, without the tiers for long prompts."""
    return float(getattr(price, "base", price))
