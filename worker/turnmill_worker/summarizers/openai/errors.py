"""How asking a model fails, and what it cost nevertheless.

Messages name the model, the kind of failure and numbers. An endpoint's own words are left out,
for they may repeat what it was sent, and the errors of the ``openai`` package are not chained,
for they hold requests and answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnmill.contract.errors import Transient
from turnmill_worker.errors import SummarizerFailed, SummaryRejected

__all__ = [
    "BatchFailed",
    "Spent",
    "SummarizerMisconfigured",
    "SummarizerUnavailable",
    "UnusableSummary",
]


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


class SummarizerUnavailable(Transient):
    """The endpoint cannot be reached, is overloaded, or broke: the same request may succeed later.

    Attributes:
        retry_after_s: when the endpoint wants to be asked again, or None when it did not say.
        spent: by calls before this one.
    """

    def __init__(self, message: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.spent = Spent()


class SummarizerMisconfigured(SummarizerFailed):
    """No request like this will succeed before somebody changes a setting: key, model, quota.

    Attributes:
        spent: by calls before this one.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.spent = Spent()


class BatchFailed(SummarizerFailed):
    """A batch has come to an end without an answer: it failed, expired or was cancelled."""


class UnusableSummary(SummaryRejected):
    """The model answered twice, to two different prompts, and neither text may be committed.

    Attributes:
        kinds: what was wrong with the first and with the second.
        spent: by all calls.
    """

    def __init__(self, message: str = "", *, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kinds = kinds
        self.spent = Spent()
