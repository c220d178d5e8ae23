"""The model summarizer as settings and policies say; what needs ``openai`` is imported on use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from turnmill.contract.estimate import Counter
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerFailed
from turnmill_worker.ports.protocols import (
    AwaitedSummary,
    BatchEndpoint,
    Gates,
    Summarizer,
    place_of,
)
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import Settings
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.summarizers.registry import IMPORTING, SummarizerFactory

if TYPE_CHECKING:
    from turnmill_worker.summarizers.openai.summarizer import Connected


class OpenAiFactory(SummarizerFactory):
    """Models at the settings' endpoint. A missing key fails their first request, not the worker."""

    def __init__(self, settings: Settings, gates: Gates | None = None) -> None:
        super().__init__(settings, gates)
        self._connected: Connected | None = None

    def summarizers(self, policy: Policy) -> Sequence[Summarizer]:
        """The policy's model, or the workers' own, and its fallback."""
        first = policy.model or self.settings.model
        names = dict.fromkeys(filter(None, (first, policy.fallback_model)))
        return [_Model(self, name, policy) for name in names]

    def batches(self) -> BatchEndpoint:
        """Batches for whatever model a policy names."""
        return _Batches(self)

    def problem(self) -> str:
        """Why no model can be asked with these settings, or ``""``; makes no call."""
        if not self.settings.model_key.get_secret_value() and self.settings.model_key_file is None:
            return "TURNMILL_MODEL_KEY is not set"
        try:
            self.connected()
        except SummarizerFailed as error:
            return str(error)
        return ""

    def about(self) -> Mapping[str, str]:
        """The endpoint and the model it asks."""
        return {"place": place_of(self.settings.model_url), "model": self.settings.model}

    def connected(self) -> Connected:
        """The endpoint's connections.

        Raises:
            SummarizerMisconfigured: there is no key, or a setting cannot be used.
        """
        with IMPORTING:
            if self._connected is None:
                from turnmill_worker.summarizers.openai.summarizer import Connected  # noqa: PLC0415

                self._connected = Connected(self.settings, self.gates)
            return self._connected

    def close(self) -> None:
        """Close its connections."""
        if self._connected is not None:
            self._connected.close()


class _Model:
    """The ``Summarizer`` port over one model."""

    def __init__(self, factory: OpenAiFactory, name: str, policy: Policy) -> None:
        self._factory = factory
        self._name = name
        self._policy = policy

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The model's summary; see ``OpenAiSummarizer.summarize``."""
        model = self._factory.connected().summarizer(self._name, self._policy)
        return model.summarize(request, counter)


class _Batches:
    """The ``BatchEndpoint`` port at the settings' endpoint."""

    def __init__(self, factory: OpenAiFactory) -> None:
        self._factory = factory

    def submit(
        self, policy: Policy, request: SummaryRequest, counter: Counter
    ) -> AwaitedSummary | None:
        """See ``OpenAiBatches.submit``."""
        name = policy.model or self._factory.settings.model
        return self._factory.connected().batches(name, policy).submit(request, counter)

    def poll(self, policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """See ``OpenAiBatches.poll``."""
        return self._factory.connected().batches(awaited.model, policy).poll(awaited)

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """See ``OpenAiBatches.cost``."""
        with suppress(SummarizerFailed):  # where there is no key any more
            return self._factory.connected().batches(awaited.model, Policy()).cost(awaited)
        return NOTHING

    def discard(self, awaited: AwaitedSummary) -> None:
        """See ``OpenAiBatches.discard``."""
        with suppress(SummarizerFailed):
            self._factory.connected().batches(awaited.model, Policy()).discard(awaited)
