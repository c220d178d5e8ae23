"""Token counting: exact where a vocabulary is at hand, a named estimate where none is."""

from turnmill_worker.tokens.counters import TokenCounter, counter_for
from turnmill_worker.tokens.image_tokens import image_tokens
from turnmill_worker.tokens.messages import (
    FORMULA_VERSION,
    REPLY_TOKENS,
    count_message,
    count_messages,
)

__all__ = [
    "FORMULA_VERSION",
    "REPLY_TOKENS",
    "TokenCounter",
    "count_message",
    "count_messages",
    "counter_for",
    "image_tokens",
]
