"""What calls to a model cost, whether they led to a summary or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls to a model cost.

    Attributes:
        calls: answered ones.
        cost_usd: None when no price is known, or an answer did not say how much it used.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
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
