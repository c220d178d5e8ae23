"""The other end of the ports to models: good, bad or down, as a test says."""

from __future__ import annotations

from collections.abc import Callable

from turnmill.contract.errors import Transient
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import (
    CircuitOpen,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryRejected,
)
from turnmill_worker.ports.protocols import AwaitedSummary, Summarizer, digest
from turnmill_worker.ports.values import SessionRef, Summary
from turnmill_worker.spending import Spent
from turnmill_worker.store.summaries import RedisBatchNotes
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer

__all__ = ["AnyBatches", "AnySummarizer", "WatchedNotes"]

_ERRORS: dict[str, Callable[[], Exception]] = {
    "down": lambda: Transient("no model answers"),
    "busy": lambda: SummarizerUnavailable("busy", retry_after_s=1.0),
    "open": lambda: CircuitOpen("open"),
    "misconfigured": lambda: SummarizerFailed("no key"),
    "refusing": lambda: SummaryRejected("refused"),
}


def _fail(mood: str) -> None:
    """Raise if that is an error's name."""
    if mood in _ERRORS:
        error = _ERRORS[mood]()
        raise error


class AnySummarizer:
    """A summarizer of some mood: ``good``, ``silent``, ``chatty``, or an error's name."""

    mood = "good"

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """An extract, or one of the ways to fail."""
        _fail(self.mood)
        if self.mood == "silent":
            return Summary(text=" \n", model="any")
        if self.mood == "chatty":
            return Summary(text="word " * 4 * request.budget_tokens, model="any")
        return ExtractiveSummarizer().summarize(request, counter)


class AnyBatches:
    """An endpoint that takes batches: ``good`` has answered, ``slow`` has not, or it fails."""

    def __init__(self) -> None:
        self.mood = "slow"
        self.kept: set[str] = set()
        self._made = 0

    def submit(
        self, _policy: Policy, request: SummaryRequest, _counter: Counter
    ) -> AwaitedSummary | None:
        """Keep it, unless the endpoint is down."""
        _fail(self.mood)
        self._made += 1
        batch = f"batch-{self._made}"
        self.kept.add(batch)
        return AwaitedSummary(batch=batch, file="f", nonce="n", model="m", digest=digest(request))

    def poll(self, _policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """The answer, if there is one."""
        assert awaited.batch in self.kept, "a batch that was ended is asked for"
        _fail(self.mood)
        return AnySummarizer() if self.mood == "good" else None

    def cost(self, _awaited: AwaitedSummary) -> Spent:
        """That of one call."""
        return Spent(calls=1, prompt_tokens=1, completion_tokens=1, cost_usd=0.01)

    def discard(self, awaited: AwaitedSummary) -> None:
        """Keep it no longer."""
        self.kept.discard(awaited.batch)


class WatchedNotes(RedisBatchNotes):
    """Notes that tell which batches were ever remembered: what a dead worker had not is lost."""

    def __init__(self, client: object) -> None:
        super().__init__(client)
        self.ever: set[str] = set()

    def remember(self, ref: SessionRef, awaited: AwaitedSummary) -> bool:
        """Remember it, and tell."""
        kept = super().remember(ref, awaited)
        if kept:
            self.ever.add(awaited.batch)
        return kept
