"""The offline summarizer: extraction, no model, no key, no network. The default."""

from __future__ import annotations

from turnmill.contract.memories_message import without_memories
from turnmill.contract.policy import OFFLINE
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.extractive import extract

__all__ = ["ExtractiveSummarizer"]


class ExtractiveSummarizer:
    """The ``Summarizer`` port over ``extract``: keeps the sentences and facts worth most."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The most telling parts of the previous summary and the records, within the budget."""
        text = extract(
            without_memories(request.records),
            previous=request.previous,
            budget_tokens=request.budget_tokens,
            count=counter.count,
            read=request.read,
        )
        return Summary(text=text, model=OFFLINE)
