"""Batches at a model's endpoint, imported on use: that takes half a second few workers need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill.contract.policy import Policy
from turnmill_worker.compaction.awaited import Awaited
from turnmill_worker.compaction.snapshot import SummaryRequest
from turnmill_worker.ports import Counter, Gates, Summarizer
from turnmill_worker.settings import Settings

if TYPE_CHECKING:
    from turnmill_worker.summarizers.openai.configured import ConfiguredBatches

__all__ = ["LazyBatches"]


class LazyBatches:
    """The ``BatchEndpoint`` port; ``pid`` is of the process whose connections it uses."""

    def __init__(self, settings: Settings, pid: int, gates: Gates | None = None) -> None:
        self._settings = settings
        self._pid = pid
        self._gates = gates

    def submit(self, policy: Policy, request: SummaryRequest, counter: Counter) -> Awaited | None:
        """See ``OpenAiBatches.submit``."""
        return self._made().submit(policy, request, counter)

    def poll(self, policy: Policy, awaited: Awaited) -> Summarizer | None:
        """See ``OpenAiBatches.poll``."""
        return self._made().poll(policy, awaited)

    def discard(self, awaited: Awaited) -> None:
        """See ``OpenAiBatches.discard``."""
        self._made().discard(awaited)

    def _made(self) -> ConfiguredBatches:
        from turnmill_worker.summarizers.openai.configured import ConfiguredBatches  # noqa: PLC0415

        return ConfiguredBatches(self._settings, self._pid, self._gates)
