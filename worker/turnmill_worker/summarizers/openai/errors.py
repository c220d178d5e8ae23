"""How asking a model fails, and what it cost nevertheless.

Messages name the model, the kind of failure and numbers. An endpoint's own words are left out,
for they may repeat what it was sent, and the errors of the ``openai`` package are not chained,
for they hold requests and answers.
"""

from __future__ import annotations

from turnmill_worker.errors import (
    CircuitOpen,
    RateLimited,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryRejected,
)
from turnmill_worker.spending import Spent

__all__ = [
    "BatchFailed",
    "CircuitOpen",
    "EndpointRefused",
    "RateLimited",
    "Spent",
    "SummarizerMisconfigured",
    "SummarizerUnavailable",
    "UnusableSummary",
]


class SummarizerMisconfigured(SummarizerFailed):
    """No request like this will succeed before somebody changes a setting: key, model, quota.

    Attributes:
        spent: by calls before this one.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.spent = Spent()


class EndpointRefused(SummarizerMisconfigured):
    """It refuses whatever it is asked: the key, the model's name, or the quota is at fault."""


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
