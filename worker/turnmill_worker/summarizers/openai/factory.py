"""The model summarizer as settings and policies say; made on use, once per process."""

from __future__ import annotations

from functools import lru_cache

from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.models import Gates
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import Settings
from turnmill_worker.summarizers.openai.batches import OpenAiBatches
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, ModelOptions, read_key
from turnmill_worker.summarizers.openai.gated_endpoint import GatedEndpoint
from turnmill_worker.summarizers.openai.prices import load_prices
from turnmill_worker.summarizers.openai.redaction import load_redactor
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer

__all__ = ["ConfiguredSummarizer", "model_batches", "model_summarizer", "options_of", "problem_of"]


def model_summarizer(
    settings: Settings, model: str, policy: Policy, pid: int, gates: Gates | None = None
) -> ConfiguredSummarizer:
    """A summarizer that asks this model; ``pid`` is of the process whose connections it uses.

    Without ``gates`` nothing keeps it from asking.
    """
    return ConfiguredSummarizer(settings, options_of(settings, model, policy), pid, gates)


def model_batches(
    settings: Settings, model: str, policy: Policy, pid: int, gates: Gates | None = None
) -> OpenAiBatches:
    """Batches this model is asked in; see ``model_summarizer``.

    Raises:
        SummarizerMisconfigured: there is no key, or a setting cannot be used.
    """
    return OpenAiBatches(
        _summarizer(settings, options_of(settings, model, policy), pid, gates).setup
    )


def options_of(settings: Settings, model: str, policy: Policy) -> ModelOptions:
    """How the model is asked under this policy."""
    return ModelOptions(
        model=model,
        temperature=policy.temperature,
        max_output_tokens=policy.max_output_tokens,
        timeout_s=policy.model_timeout_s,
        window_tokens=settings.model_window_tokens,
        api=settings.model_api,
    )


def problem_of(settings: Settings, pid: int) -> str:
    """Why no model can be asked with these settings, or ``""``; asks nobody."""
    try:
        _summarizer(settings, options_of(settings, settings.model, Policy()), pid, None)
    except SummarizerMisconfigured as error:
        return str(error)
    return ""


class ConfiguredSummarizer:
    """The ``Summarizer`` port; a missing key fails its first request, not the worker."""

    def __init__(
        self, settings: Settings, options: ModelOptions, pid: int, gates: Gates | None
    ) -> None:
        self._settings = settings
        self._options = options
        self._pid = pid
        self._gates = gates

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The model's summary; see ``OpenAiSummarizer.summarize``."""
        made = _summarizer(self._settings, self._options, self._pid, self._gates)
        return made.summarize(request, counter)


@lru_cache(maxsize=64)
def _summarizer(
    settings: Settings, options: ModelOptions, pid: int, gates: Gates | None
) -> OpenAiSummarizer:
    endpoint = _endpoint(settings, pid)
    gate = gates(settings.model_url, options.model) if gates else None
    return OpenAiSummarizer(
        GatedEndpoint(endpoint, gate) if gate else endpoint,
        options,
        redactor=load_redactor(settings.redactor),
        prices=load_prices(settings.model_prices, url=settings.model_url),
    )


@lru_cache(maxsize=1)
def _endpoint(settings: Settings, _pid: int) -> ModelEndpoint:
    key = read_key(settings.model_key, file=settings.model_key_file)
    return ModelEndpoint(api_key=key, base_url=settings.model_url)
