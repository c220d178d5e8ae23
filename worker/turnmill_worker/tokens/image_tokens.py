"""What an image costs: the producer's formulas, chosen by what a counter's basis names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnmill.contract.image_tokens import FORMULAS, part_tokens
from turnmill_worker.tokens.basis import image_formula


def image_tokens(part: Mapping[str, Any], basis: str) -> int:
    """Return the tokens of one `image_url` part, by the formula that `basis` names.

    The size comes from the part's reference or from the first bytes of its data URL; an image
    whose size is unknown costs the formula's most.
    """
    return part_tokens(part, FORMULAS[image_formula(basis)])
