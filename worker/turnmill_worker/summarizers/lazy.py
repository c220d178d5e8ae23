"""Batches at a model's endpoint, imported on use: that takes half a second few workers need."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerFailed
from turnmill_worker.ports.batches import AwaitedSummary
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.models import Gates, Summarizer
from turnmill_worker.settings import Settings
from turnmill_worker.spending import NOTHING, Spent

if TYPE_CHECKING:
    from turnmill_worker.summarizers.openai.batches import OpenAiBatches

__all__ = ["LazyBatches"]


class LazyBatches:
    """The ``BatchEndpoint`` port at the settings' endpoint, for whatever model a policy names.

    ``pid`` is of the process whose connections it uses.
    """

    def __init__(self, settings: Settings, pid: int, gates: Gates | None = None) -> None:
        self._settings = settings
        self._pid = pid
        self._gates = gates

    def submit(
        self, policy: Policy, request: SummaryRequest, counter: Counter
    ) -> AwaitedSummary | None:
        """See ``OpenAiBatches.submit``."""
        return self._of(policy, policy.model or self._settings.model).submit(request, counter)

    def poll(self, policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """See ``OpenAiBatches.poll``."""
        return self._of(policy, awaited.model).poll(awaited)

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """See ``OpenAiBatches.cost``."""
        with suppress(SummarizerFailed):  # where there is no key any more
            return self._of(Policy(), awaited.model).cost(awaited)
        return NOTHING

    def discard(self, awaited: AwaitedSummary) -> None:
        """See ``OpenAiBatches.discard``."""
        with suppress(SummarizerFailed):
            self._of(Policy(), awaited.model).discard(awaited)

    def _of(self, policy: Policy, model: str) -> OpenAiBatches:
        from turnmill_worker.summarizers.openai.factory import model_batches  # noqa: PLC0415

        return model_batches(self._settings, model, policy, self._pid, self._gates)
