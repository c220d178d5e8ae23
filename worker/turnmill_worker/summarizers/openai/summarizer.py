"""The ``Summarizer`` port over a model: in chunks, between marks, checked before it is believed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Self

from turnmill.contract.estimate import Counter
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerMisconfigured, SummarizerUnavailable, UnusableSummary
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.openai.answers import Answer
from turnmill_worker.summarizers.openai.checked_request import Setup, Work
from turnmill_worker.summarizers.openai.endpoint import ModelOptions
from turnmill_worker.summarizers.openai.gated_endpoint import Endpoint
from turnmill_worker.summarizers.openai.prices import Prices, load_prices
from turnmill_worker.summarizers.redaction import Redactor

__all__ = ["OpenAiSummarizer", "written"]


class OpenAiSummarizer:
    """Writes summaries with one model; cheap to make, safe to use from many threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        options: ModelOptions,
        *,
        redactor: Redactor | None = None,
        prices: Prices | None = None,
        nonce: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        """A summarizer; nothing is sent yet.

        Args:
            endpoint: who is asked.
            options: how.
            redactor: what is applied to all text before it leaves.
            prices: what tokens cost; OpenAI's list prices when None.
            nonce: makes the code of a request's marks: this many bytes as hex digits.
        """
        self.setup = Setup(
            endpoint=endpoint,
            options=options,
            prices=prices or load_prices(),
            redactor=redactor,
            nonce=nonce,
        )

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """A summarizer with all of this setup."""
        return cls(
            setup.endpoint,
            setup.options,
            redactor=setup.redactor,
            prices=setup.prices,
            nonce=setup.nonce,
        )

    def __repr__(self) -> str:
        return f"OpenAiSummarizer(model={self.setup.options.model!r})"

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A checked summary of at most ``request.budget_tokens`` by this counter, and its cost.

        Raises:
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not until a setting is changed.
            UnusableSummary: the model's texts must not be committed.
        """
        return written(Work(self.setup, request, counter))


def written(work: Work, answered: Answer | None = None) -> Summary:
    """The work's summary and its cost; ``answered`` as of ``Work.write``, errors as above."""
    try:
        text = work.write(answered)
    except (SummarizerUnavailable, SummarizerMisconfigured, UnusableSummary) as error:
        error.spent = work.asker.spent
        raise
    spent = work.asker.spent
    return Summary(
        text=text,
        model=work.setup.options.model,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        cost_usd=spent.cost_usd,
    )
