"""The offline summarizer: from turns and a budget to a text, without model, key or network."""

from __future__ import annotations

from turnmill.contract.estimate import Counter
from turnmill.contract.policy import OFFLINE
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.ports.values import Summary


class ExtractiveSummarizer:
    """The ``Summarizer`` port over a digest: keeps the passages, tables and lists worth most."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """What of the covered turns is most likely to be needed, in their own words.

        Never raises on any content. Pure and deterministic.
        """
        text = digest_of(request, counter).text(request.whole_tokens)
        return Summary(text=text, model=OFFLINE)
