"""An endpoint's connections, and the summarizers that use them; imports ``openai``."""

from __future__ import annotations

from functools import lru_cache

from turnmill.contract.policy import Policy
from turnmill_worker.ports.models import Gates
from turnmill_worker.settings import Settings
from turnmill_worker.summarizers.openai.batches import OpenAiBatches
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, ModelOptions, read_key
from turnmill_worker.summarizers.openai.gated_endpoint import GatedEndpoint
from turnmill_worker.summarizers.openai.prices import load_prices
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer
from turnmill_worker.summarizers.redaction import load_redactor

__all__ = ["Connected"]


class Connected:
    """One process's connections, for all models at the settings' endpoint."""

    def __init__(self, settings: Settings, gates: Gates | None) -> None:
        """Nothing is sent yet.

        Raises:
            SummarizerMisconfigured: there is no key, or a setting cannot be used.
        """
        self._settings = settings
        self._gates = gates
        self._redactor = load_redactor(settings.redactor)
        self._prices = load_prices(settings.model_prices, url=settings.model_url)
        key = read_key(settings.model_key, file=settings.model_key_file)
        self._endpoint = ModelEndpoint(api_key=key, base_url=settings.model_url)
        self._summarizer = lru_cache(maxsize=64)(self._new_summarizer)

    def summarizer(self, model: str, policy: Policy) -> OpenAiSummarizer:
        """The summarizer that asks this model as the policy says."""
        return self._summarizer(
            ModelOptions(
                model=model,
                temperature=policy.temperature,
                max_output_tokens=policy.max_output_tokens,
                timeout_s=policy.model_timeout_s,
                window_tokens=self._settings.model_window_tokens,
                api=self._settings.model_api,
            )
        )

    def batches(self, model: str, policy: Policy) -> OpenAiBatches:
        """Batches of requests to this model."""
        return OpenAiBatches(self.summarizer(model, policy).setup)

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _new_summarizer(self, options: ModelOptions) -> OpenAiSummarizer:
        gate = self._gates(self._settings.model_url, options.model) if self._gates else None
        return OpenAiSummarizer(
            GatedEndpoint(self._endpoint, gate) if gate else self._endpoint,
            options,
            redactor=self._redactor,
            prices=self._prices,
        )
