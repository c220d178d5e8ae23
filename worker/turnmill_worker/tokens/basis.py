"""The version of the message formula, apart so that a counter need not import the formula."""

from typing import Final

from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS

FORMULA_VERSION: Final = 2
"""Raised whenever `messages` or `images` changes what a message costs: old counts then go stale."""


def basis(name: str, images: str = DEFAULT_FORMULA) -> str:
    """Name what a count is made with: vocabulary, message formula, images' formula.

    Such as `o200k_base/2/gpt-4o`; the last is a key of `FORMULAS`.
    """
    return f"{name}/{FORMULA_VERSION}/{images}"


def image_formula(basis: str) -> str:
    """Return the images' formula a basis names; the default where it names none."""
    named = basis.rpartition("/")[2]
    return named if named in FORMULAS else DEFAULT_FORMULA
