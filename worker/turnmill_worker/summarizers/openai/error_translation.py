"""Errors of the ``openai`` package, told without what they quote."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import openai

from turnmill_worker.errors import (
    EndpointRefused,
    RateLimited,
    SummarizerMisconfigured,
    SummarizerUnavailable,
)

__all__ = ["retry_after_s", "translated"]

_PASSING: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say nothing against the request itself."""

_TOO_OFTEN: Final = 429

_NO_QUOTA: Final = "insufficient_quota"
_TOO_LONG: Final = "context_length_exceeded"

_REFUSES_ALL: Final = frozenset({401, 403, 404})
"""Statuses that say nothing about this request, but about every one: key, rights, model."""


def translated(
    error: openai.OpenAIError, *, model: str, timeout_s: float
) -> SummarizerUnavailable | SummarizerMisconfigured:
    """Our error for theirs: its kind and numbers, none of its words."""
    if isinstance(error, openai.APITimeoutError):
        return SummarizerUnavailable(f"{model}: no answer within {timeout_s:g} s")
    if not isinstance(error, openai.APIStatusError):
        return SummarizerUnavailable(f"{model}: {type(error).__name__}")
    status = error.status_code
    if error.code == _NO_QUOTA:
        return EndpointRefused(f"{model}: HTTP {status}, {error.code}")
    if error.code == _TOO_LONG:
        return SummarizerMisconfigured(f"{model}: HTTP {status}, {error.code}")
    if status >= 500 or status in _PASSING:  # noqa: PLR2004
        wait = retry_after_s(error.response.headers, now_s=time.time())
        passing = RateLimited if status == _TOO_OFTEN else SummarizerUnavailable
        return passing(f"{model}: HTTP {status}", retry_after_s=wait)
    lasting = EndpointRefused if status in _REFUSES_ALL else SummarizerMisconfigured
    return lasting(f"{model}: HTTP {status}, {_MEANING.get(status, 'refused')}")


_MEANING: Final = {
    400: "the request is not to its liking: check model, temperature and output cap",
    401: "the key is not accepted",
    403: "the key may not use it",
    404: "there is no such model or path",
    413: "the request is too large: lower window_tokens",
    422: "the request is not to its liking: check model, temperature and output cap",
}


def retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Seconds the endpoint asks to wait: ``retry-after-ms``, seconds, or a date; None if none."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            wait = float(value) * scale
        except ValueError:
            try:
                wait = parsedate_to_datetime(value).timestamp() - now_s
            except (TypeError, ValueError):
                continue
        if math.isfinite(wait):
            return max(wait, 0.0)
    return None
