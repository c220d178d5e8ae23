"""Errors only a worker meets; part of the tree in ``turnmill.contract.errors``.

::

    TurnmillError
    ├── SummaryRejected              a text that must not be committed
    ├── SummarizerFailed             not before somebody changes a setting
    ├── InvalidSettings              a variable of the environment
    ├── InternalError                a defect in turnmill
    └── Transient
        └── SummarizerUnavailable    the same request may succeed later
            ├── SummaryDeferred      all models fail for now, and there is time to wait
            ├── RateLimited          asked too often: by our limits, or the endpoint says so
            └── CircuitOpen          not asked: the endpoint fails, and is left alone for a while
"""

from __future__ import annotations

from turnmill.contract.errors import Transient, TurnmillError
from turnmill_worker.spending import Spent

__all__ = [
    "CircuitOpen",
    "InternalError",
    "InvalidSettings",
    "RateLimited",
    "SummarizerFailed",
    "SummarizerUnavailable",
    "SummaryDeferred",
    "SummaryRejected",
]


class SummaryRejected(TurnmillError):
    """A summary that must not be committed; says why in numbers, never in its words.

    Attributes:
        spent: on it, and on what was tried before it.
    """

    spent = Spent()


class InvalidSettings(TurnmillError):
    """A variable of the environment has a value it must not have."""


class InternalError(TurnmillError):
    """A defect in turnmill: the kind of error and where it was, without what it was about."""


class SummarizerFailed(TurnmillError):
    """A summarizer cannot do its work before somebody changes a setting; use the next one.

    Attributes:
        spent: by calls before this one.
    """

    spent = Spent()


class SummarizerUnavailable(Transient):
    """The endpoint cannot be reached, is overloaded, or broke: the same request may succeed later.

    Attributes:
        retry_after_s: when it is worth asking again, or None when nobody knows.
        spent: by calls before this one.
    """

    def __init__(self, message: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.spent = Spent()


class RateLimited(SummarizerUnavailable):
    """Asked too often: our own limits would be passed, or the endpoint answered 429."""


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
