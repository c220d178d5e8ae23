"""Reading what somebody else may have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from turnmill.contract.errors import CorruptContext, TurnmillError

__all__ = ["as_corrupt"]


@contextmanager
def as_corrupt() -> Iterator[None]:
    """Turn what stored values of another shape cause into a ``CorruptContext``, without them.

    Whoever may write to a session's keys can put anything there; Python's errors would quote it.
    """
    try:
        yield
    except TurnmillError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise CorruptContext(f"stored session: not what turnmill writes ({kind})") from None
