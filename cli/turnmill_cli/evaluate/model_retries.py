"""A summarizer for an evaluation: asked again when that may help, else the end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kombu.utils.functional import retry_over_time

from turnmill.contract.errors import Transient
from turnmill_cli.output import CommandFailed
from turnmill_worker.errors import SummarizerFailed

if TYPE_CHECKING:
    from turnmill.contract.counters import Counter
    from turnmill_worker.compaction.plan import SummaryRequest
    from turnmill_worker.ports.models import Summarizer
    from turnmill_worker.ports.values import Summary
    from turnmill_worker.settings import Settings

__all__ = ["Patient", "summarizer_of"]

RETRIES: Final = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S: Final = 30.0


class Patient:
    """The ``Summarizer`` port over another; nothing but an unusable text is overlooked."""

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


def summarizer_of(name: str, settings: Settings) -> Patient:
    """The one a worker with these settings would ask first; nothing is sent yet.

    Raises:
        CommandFailed: there is none of this name, or it cannot be asked.
    """
    from turnmill.contract.policy import Policy  # noqa: PLC0415
    from turnmill_worker.summarizers.registry import Registry  # noqa: PLC0415

    try:
        factory = Registry(settings).factory(name)
    except SummarizerFailed as error:
        raise CommandFailed(str(error)) from None
    problem = factory.problem()
    if problem:
        raise CommandFailed(
            f"--summarizer {name}: {problem}. It is asked as a worker would ask it, with the "
            "TURNMILL_ settings of this environment"
        )
    return Patient(factory.summarizers(Policy(summarizer=name))[0], factory.close)


def _wait_s(error: Any, _intervals: Iterator[float], retries: int) -> float:
    """What the endpoint asks for, else twice as long each time."""
    asked: float | None = getattr(error, "retry_after_s", None)
    return FIRST_WAIT_S * 2**retries if asked is None else asked
