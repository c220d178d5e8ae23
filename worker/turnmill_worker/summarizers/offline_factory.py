"""The offline summarizer, as the registry offers it; beside ``extractive``, which stays pure."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.policy import Policy
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.factory_protocol import SummarizerFactory

__all__ = ["OfflineFactory"]


class OfflineFactory(SummarizerFactory):
    """The same for every policy; can always be asked."""

    def summarizers(self, policy: Policy) -> Sequence[Summarizer]:  # noqa: ARG002
        """The extractive summarizer."""
        return [ExtractiveSummarizer()]
