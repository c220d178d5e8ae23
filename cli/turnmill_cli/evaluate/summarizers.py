"""The summarizers that can be evaluated; a model is asked again if that may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kombu.utils.functional import retry_over_time

from turnmill.contract.errors import Transient
from turnmill.contract.policy import Policy
from turnmill_cli.output import CommandFailed
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import InvalidSettings, SummarizerFailed
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import load_settings
from turnmill_worker.summarizers.extractive.summarizer import ExtractiveSummarizer
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, read_key
from turnmill_worker.summarizers.openai.factory import options_of
from turnmill_worker.summarizers.openai.prices import load_prices
from turnmill_worker.summarizers.openai.redaction import load_redactor
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer

__all__ = ["SUMMARIZERS", "RetryingModel"]

RETRIES: Final = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S: Final = 30.0


class RetryingModel:
    """The ``Summarizer`` port over a model. A refused text goes on; any other failure ends it."""

    def __init__(self, model: Summarizer, close: Callable[[], None]) -> None:
        self._model = model
        self.close = close

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The model's summary.

        Raises:
            SummaryRejected: its text must not be used.
            CommandFailed: it cannot be asked, or failed several times in a row for reasons that
                pass. Numbers without some of the texts would look like numbers.
        """
        try:
            written: Summary = retry_over_time(
                self._model.summarize,
                Transient,
                (request, counter),
                errback=_wait_s,  # type: ignore[arg-type]  # what it answers is the pause
                max_retries=RETRIES,
                interval_max=LONGEST_WAIT_S,
            )
        except Transient as error:
            raise CommandFailed(f"gave up after {RETRIES + 1} calls: {error}") from None
        except SummarizerFailed as error:
            raise CommandFailed(str(error)) from None
        return written


def openai() -> RetryingModel:
    """The model that a worker with the same environment would ask; nothing is sent yet.

    Raises:
        CommandFailed: it cannot be asked: there is no key, or a setting is wrong.
    """
    try:
        settings = load_settings()
    except InvalidSettings as error:
        raise CommandFailed(str(error)) from None
    try:
        key = read_key(settings.model_key, file=settings.model_key_file)
        endpoint = ModelEndpoint(api_key=key, base_url=settings.model_url)
        model = OpenAiSummarizer(
            endpoint,
            options_of(settings, settings.model, Policy()),
            redactor=load_redactor(settings.redactor),
            prices=load_prices(settings.model_prices),
        )
    except SummarizerFailed as error:
        raise CommandFailed(
            f"--summarizer openai: {error}. Set it as for a worker: TURNMILL_MODEL_URL, "
            "TURNMILL_MODEL, and TURNMILL_MODEL_KEY or TURNMILL_MODEL_KEY_FILE"
        ) from None
    return RetryingModel(model, endpoint.close)


SUMMARIZERS: Mapping[str, Callable[[], Summarizer]] = {
    "extractive": ExtractiveSummarizer,
    "openai": openai,
}
"""Who can be evaluated, by name."""


def _wait_s(error: Any, _intervals: Iterator[float], retries: int) -> float:
    """As long as the endpoint asks for, else twice as long each time."""
    asked: float | None = getattr(error, "retry_after_s", None)
    return FIRST_WAIT_S * 2**retries if asked is None else asked
