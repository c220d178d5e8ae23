"""The offline summarizer: extraction, no model, no key, no network. The default."""

from __future__ import annotations

from turnmill.contract.memories import is_memories
from turnmill_worker.compaction.apart import tokens_needed
from turnmill_worker.compaction.snapshot import SummaryRequest
from turnmill_worker.ports import Counter
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.values import Summary

__all__ = ["ExtractiveSummarizer"]


class ExtractiveSummarizer:
    """The ``Summarizer`` port over ``extract``: keeps the sentences and facts worth most."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The most telling parts of the previous summary and the records, within the budget."""
        said = [record for record in request.records if not is_memories(record[1])]
        text, apart = "", 0
        while True:
            text = extract(
                said,
                previous=request.previous,
                budget_tokens=request.whole_tokens - apart,
                count=counter.count,
            )
            # Writing costs nothing: with all of the room first, then without what facts need that
            # it does not state, and where it now states still fewer, without all that is theirs.
            needed = tokens_needed(text, request, counter.count) if request.facts else 0
            if needed <= request.whole_tokens - counter.count(text):
                return Summary(text=text, model="extractive")
            apart = request.ledger_tokens if apart else needed
