"""Images on their way into Redis: taken out of a turn, with the key each is kept under."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from turnmill.contract.images.references import split_images
from turnmill.contract.images.token_cost import ImageRef
from turnmill.contract.turns import Turn

__all__ = ["DEFAULT_MAX_IMAGE_BYTES", "StoredImage", "take_images"]

DEFAULT_MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024


class StoredImage(NamedTuple):
    """An image taken out of a turn.

    Attributes:
        key: where Redis keeps it.
        ref: what stands for it in the message.
        url: the data URL it came as.
    """

    key: str
    ref: ImageRef
    data: bytes
    url: str


def take_images(turn: Turn, prefix: str) -> tuple[Turn, tuple[StoredImage, ...]]:
    """The turn with references in place of its inline images, and those images, each once."""
    stored, blobs = split_images(turn)
    if not blobs:
        return turn, ()
    found = {ref.sha256: (ref, url) for ref, url in _replaced(turn, stored)}
    return stored, tuple(
        StoredImage(f"{prefix}{sha256}", ref, blobs[sha256], url)
        for sha256, (ref, url) in found.items()
    )


def _replaced(turn: Turn, stored: Turn) -> Iterator[tuple[ImageRef, str]]:
    """The reference in place of each image, and the data URL it replaces."""
    for one, other in zip(turn.messages, stored.messages, strict=True):
        if isinstance(one.content, tuple) and isinstance(other.content, tuple):
            for before, after in zip(one.content, other.content, strict=True):
                ref = ImageRef.parse((after.image_url or {}).get("url"))
                if before is not after and ref and before.image_url:
                    yield ref, str(before.image_url["url"])
