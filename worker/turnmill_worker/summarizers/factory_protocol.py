"""What a kind of summarizer gives a worker process; write your own from here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from turnmill.contract.policy import Policy
from turnmill_worker.ports.batches import BatchEndpoint
from turnmill_worker.ports.models import Gates, Summarizer
from turnmill_worker.settings import Settings

__all__ = ["SummarizerFactory"]


class SummarizerFactory(ABC):
    """Made once per process, when a policy names it first; used by many threads."""

    def __init__(self, settings: Settings, gates: Gates | None = None) -> None:
        """Nothing is connected yet.

        Args:
            settings: the worker's.
            gates: breaker and rate limit of each model, shared by all workers; None without Redis.
        """
        self.settings = settings
        self.gates = gates

    @abstractmethod
    def summarizers(self, policy: Policy) -> Sequence[Summarizer]:
        """The summarizers to ask under this policy, in order; ``extractive`` comes after them."""

    def batches(self) -> BatchEndpoint | None:
        """Where requests are handed in as batches; None when all are asked live."""
        return None

    def problem(self) -> str:
        """Why it cannot be asked with this worker's settings, or ``""``; makes no call."""
        return ""

    def about(self) -> Mapping[str, str]:
        """What the worker's log says of it at start: no keys."""
        return {}

    def close(self) -> None:  # noqa: B027 - few have any
        """Close its connections."""
