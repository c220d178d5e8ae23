"""Errors only a worker meets; part of the tree in ``turnmill.contract.errors``.

::

    TurnmillError
    ├── InvalidInput
    │   └── InvalidArchiveUrl        names no database turnmill can use
    ├── InvalidSettings              a variable of the environment
    ├── UnknownStrategy              a policy names only strategies that this worker lacks
    ├── InternalError                a defect in turnmill
    ├── ArchiveFailed                the database refused, and will again
    ├── ArchiveTooNew                a newer turnmill wrote it
    ├── SummaryRejected              a text that must not be committed
    │   └── UnusableSummary          a model answered twice, and neither text is fit
    ├── SummarizerFailed             not before somebody changes a setting
    │   ├── BatchFailed              a batch ended without an answer
    │   └── SummarizerMisconfigured  key, model or quota
    │       ├── EndpointRefused      refuses whatever it is asked
    │       └── UnknownSummarizer    a policy names one that this worker does not have
    └── Transient
        └── SummarizerUnavailable    the same request may succeed later
            ├── SummaryDeferred      all models fail for now, and there is time to wait
            ├── RateLimited          asked too often: by our limits, or the endpoint says so
            └── CircuitOpen          not asked: the endpoint fails, and is left alone for a while

Messages about a model name it, the kind of failure and numbers. An endpoint's own words are left
out, for they may repeat what it was sent, and the errors of the ``openai`` package are not chained,
for they hold requests and answers.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from turnmill.contract.errors import InvalidInput, Transient, TurnmillError
from turnmill_worker.spending import Spent


class SummaryRejected(TurnmillError):
    """A summary that must not be committed; says why in numbers, never in its words.

    Attributes:
        spent: on it, and on what was tried before it.
        failed: why nobody wrote a better one; see ``Compaction.failed``.
        items: how many statements of models could not be believed, by reason.
    """

    spent = Spent()
    failed: tuple[str, ...] = ()
    items: Mapping[str, int] = {}


class InvalidSettings(TurnmillError):
    """A variable of the environment has a value it must not have."""


class UnknownStrategy(TurnmillError):
    """A policy names no strategy that this worker has; says which there are."""


class InternalError(TurnmillError):
    """A defect in turnmill: the kind of error and where it was, without what it was about."""


class SummarizerFailed(TurnmillError):
    """A summarizer cannot do its work until somebody changes a setting; use the next one.

    Attributes:
        spent: by calls before this one.
        items: as of ``SummaryRejected``.
    """

    spent = Spent()
    items: Mapping[str, int] = {}


class SummarizerUnavailable(Transient):
    """The endpoint cannot be reached, is overloaded, or broke: the same request may succeed later.

    Attributes:
        retry_after_s: when it is worth asking again, or None when nobody knows.
        is_slow: it took the request, and did not answer in time.
        spent: by calls before this one, and about what this one had taken when it broke off.
        items: as of ``SummaryRejected``.
    """

    items: Mapping[str, int] = {}

    def __init__(
        self, message: str = "", *, retry_after_s: float | None = None, is_slow: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_slow = is_slow
        self.spent = Spent()


class RateLimited(SummarizerUnavailable):
    """Asked too often: our own limits would be exceeded, or the endpoint answered 429."""


class CircuitOpen(SummarizerUnavailable):
    """Not asked: the endpoint failed too often in a row, or refuses everybody."""


class SummaryDeferred(SummarizerUnavailable):
    """Every model asked failed for a reason that passes, and the session has room to wait.

    Attributes:
        failed: the kinds of their errors.
    """

    def __init__(self, failed: tuple[str, ...] = (), *, retry_after_s: float | None = None) -> None:
        super().__init__(", ".join(failed), retry_after_s=retry_after_s)
        self.failed = failed


class SummarizerMisconfigured(SummarizerFailed):
    """No request like this will succeed until somebody changes a setting: key, model, quota.

    Attributes:
        spent: by calls before this one.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.spent = Spent()


class EndpointRefused(SummarizerMisconfigured):
    """The endpoint refuses every request: the key, the model's name, or the quota is at fault."""


class UnknownSummarizer(SummarizerMisconfigured):
    """A policy names a summarizer that this worker does not have; says which there are."""


class BatchFailed(SummarizerFailed):
    """A batch has come to an end without an answer: it failed, expired or was cancelled."""


class UnusableSummary(SummaryRejected):
    """The model answered twice, to two different prompts, and neither text may be committed.

    Attributes:
        kinds: what was wrong with the first and with the second.
        items: how many statements could not be believed, by reason.
        spent: by all calls.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kinds: tuple[str, ...] = (),
        items: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.kinds = kinds
        self.items = dict(items or {})
        self.spent = Spent()


class ArchiveFailed(TurnmillError):
    """The archive's database refused, and will again: damaged, read-only, or no permission."""


class ArchiveTooNew(TurnmillError):
    """A newer turnmill has written this archive; nothing was changed."""


class InvalidArchiveUrl(InvalidInput):
    """The archive's URL names no database turnmill can use."""


def where(error: Exception) -> str:
    """The file and line an unforeseen error comes from: its message may quote a conversation."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
