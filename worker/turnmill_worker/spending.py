"""What calls to a model cost, whether they led to a summary or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls to a model cost.

    Attributes:
        calls: answered ones.
        cost_usd: None when no price is known, or an answer did not say how much it used.
        by_model: what each model that was asked has of it; under ``""`` what nobody knows it of.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    by_model: Mapping[str, Spent] = field(default_factory=dict)

    @classmethod
    def stored(cls, told: Mapping[str, Any]) -> Self:
        """What ``asdict`` made of it; another version may know other fields."""
        fields = {name: told[name] for name in cls.__slots__ if name in told}
        by_model = {name: cls.stored(part) for name, part in told.get("by_model", {}).items()}
        return cls(**{**fields, "by_model": by_model})

    def of(self, model: str) -> Spent:
        """The same, as what this model was asked for."""
        whole = replace(self, by_model={})
        return whole if whole == NOTHING else replace(whole, by_model={model: whole})

    def __add__(self, other: Spent) -> Spent:
        parts = dict(self.by_model or self.of("").by_model)
        for model, part in (other.by_model or other.of("").by_model).items():
            parts[model] = parts[model]._with(part) if model in parts else part
        return replace(self._with(other), by_model=parts)

    def _with(self, other: Spent) -> Spent:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Spent(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


NOTHING: Final = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of asking models since the session's last commit.

    Attributes:
        deferrals: how often it was put off because they failed.
        stale: how often a summary came too late, because the session had changed meanwhile.
        spent: on calls that led to nothing.
    """

    deferrals: int = 0
    stale: int = 0
    spent: Spent = NOTHING

    def plus(self, spent: Spent) -> Tried:
        """The same, with more spent."""
        return replace(self, spent=self.spent + spent)


NOT_TRIED: Final = Tried()
