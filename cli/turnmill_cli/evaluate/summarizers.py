"""The summarizer that is evaluated; it is asked again if that may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kombu.utils.functional import retry_over_time

from turnmill.contract.errors import Transient
from turnmill.contract.policy import Policy
from turnmill.contract.token_counters import Counter
from turnmill_cli.output import CommandFailed
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import InvalidSettings, SummarizerFailed
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import load_settings
from turnmill_worker.summarizers.registry import Registry

__all__ = ["RetryingSummarizer", "summarizer_of"]

RETRIES: Final = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S: Final = 30.0


class RetryingSummarizer:
    """The ``Summarizer`` port over another. A refused text goes on; any other failure ends it."""

    def __init__(self, summarizer: Summarizer, close: Callable[[], None]) -> None:
        self._summarizer = summarizer
        self.close = close

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """Its summary.

        Raises:
            SummaryRejected: its text must not be used.
            CommandFailed: it cannot be asked, or failed several times in a row for reasons that
                pass. Numbers without some of the texts would look like numbers.
        """
        try:
            written: Summary = retry_over_time(
                self._summarizer.summarize,
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


def summarizer_of(name: str) -> RetryingSummarizer:
    """The one a worker with the same environment would ask first; nothing is sent yet.

    Raises:
        CommandFailed: there is none of this name, or it cannot be asked.
    """
    try:
        factory = Registry(load_settings()).factory(name)
    except (InvalidSettings, SummarizerFailed) as error:
        raise CommandFailed(str(error)) from None
    problem = factory.problem()
    if problem:
        raise CommandFailed(
            f"--summarizer {name}: {problem}. Set it as for a worker, with the TURNMILL_ settings"
        )
    return RetryingSummarizer(factory.summarizers(Policy(summarizer=name))[0], factory.close)


def _wait_s(error: Any, _intervals: Iterator[float], retries: int) -> float:
    """As long as the endpoint asks for, else twice as long each time."""
    asked: float | None = getattr(error, "retry_after_s", None)
    return FIRST_WAIT_S * 2**retries if asked is None else asked
