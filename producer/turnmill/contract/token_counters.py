"""What counts tokens: of a text, and of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from turnmill.contract.context import JsonMessage

__all__ = ["CountMessages", "CountText", "Counter", "Counters", "Exact"]

CountText = Callable[[str], int]
"""Tokens of a text."""

CountMessages = Callable[[Sequence[JsonMessage]], int]
"""Tokens of a list of messages, without the reply's opening; additive."""


class Exact(NamedTuple):
    """What counts the messages of a turn as workers will, and by which encoding."""

    encoding: str
    count: CountMessages

    def under(self, encoding: str) -> Exact | None:
        """It, for a policy of this encoding; None for another."""
        return self if encoding == self.encoding else None


class Counter(Protocol):
    """Counts tokens exactly, or says by its basis that it only estimates."""

    @property
    def basis(self) -> str:
        """The vocabulary and the version of the message formula."""

    @property
    def framing(self) -> int:
        """Tokens around each message."""

    def count(self, text: str) -> int:
        """Tokens of the text."""

    def count_messages(self, messages: Sequence[JsonMessage]) -> int:
        """Tokens of the messages, without the reply's opening; additive."""

    def __hash__(self) -> int:
        """Counters are hashable: counts of system prompts are cached by counter."""


class Counters(Protocol):
    """Gives the counter for a vocabulary."""

    def __call__(self, encoding: str, image_formula: str) -> Counter:
        """The counter for this encoding, or the best stand-in; images are priced as named."""
