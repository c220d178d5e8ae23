"""What an image costs: the one place to change when a provider's dimension formula is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

IMAGE_TOKENS: Final = 1105
"""A 2048 x 4096 image in high detail (OpenAI vision guide: 85 + 6 tiles of 170)."""

LOW_DETAIL_IMAGE_TOKENS: Final = 85
"""Any image in low detail (OpenAI vision guide)."""


def image_tokens(part: Mapping[str, Any]) -> int:
    """Return the tokens of one `image_url` part; flat, whatever the picture's size.

    The picture itself, a data URL or an address, is never read.
    """
    image = part.get("image_url")
    detail = image.get("detail") if isinstance(image, Mapping) else part.get("detail")
    return LOW_DETAIL_IMAGE_TOKENS if detail == "low" else IMAGE_TOKENS
