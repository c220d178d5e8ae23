"""Token counting: exact where a vocabulary is at hand, a named estimate where none is."""

from turnmill_worker.tokens.counters import counter_for
from turnmill_worker.tokens.messages import (
    FORMULA_VERSION,
    REPLY_TOKENS,
    CountedOnce,
    TokenCounter,
    count_message,
    count_request,
    image_tokens,
)

__all__ = [
    "FORMULA_VERSION",
    "REPLY_TOKENS",
    "CountedOnce",
    "TokenCounter",
    "count_message",
    "count_request",
    "counter_for",
    "image_tokens",
]
