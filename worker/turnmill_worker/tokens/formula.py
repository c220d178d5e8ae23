"""The version of the message formula, apart so that a counter need not import the formula."""

from typing import Final

FORMULA_VERSION: Final = 1
"""Raised whenever `messages` or `images` changes what a message costs: old counts then go stale."""


def basis(name: str) -> str:
    """Name what a count was made with: the vocabulary and the message formula, `o200k_base/1`."""
    return f"{name}/{FORMULA_VERSION}"
