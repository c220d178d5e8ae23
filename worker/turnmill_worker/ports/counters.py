"""What counts tokens."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Counter", "Counters"]


class Counter(Protocol):
    """Counts tokens of text exactly, or says by its basis that it only estimates."""

    @property
    def basis(self) -> str:
        """The vocabulary and the version of the message formula."""

    def count(self, text: str) -> int:
        """Tokens of the text."""


class Counters(Protocol):
    """Gives the counter for a vocabulary."""

    def __call__(self, encoding: str, image_formula: str) -> Counter:
        """The counter for this encoding, or the best stand-in; images are priced as named."""
