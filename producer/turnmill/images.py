"""Images on their way: whose bytes a push must carry, and which ones a read must fetch; no I/O.

A client remembers which images Redis has and what the newest it has seen look like, so that
showing an image again costs its hash and no more. Both are guesses: Redis says when it lacks one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from turnmill.contract.images.references import data_url, split_images
from turnmill.contract.images.token_cost import ImageRef
from turnmill.contract.turns import Turn

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "DEFAULT_MAX_IMAGE_BYTES",
    "ImageCache",
    "StoredImage",
    "take_images",
]

DEFAULT_MAX_IMAGE_BYTES = 20 * 1024 * 1024
DEFAULT_CACHE_BYTES = 64 * 1024 * 1024

_MOST_KEYS = 10_000
"""Images believed to be in Redis: a megabyte or two of keys."""


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
    """The turn with references for its inline images, and those, each once."""
    stored, blobs = split_images(turn)
    if not blobs:
        return turn, ()
    found = {ref.sha256: (ref, url) for ref, url in _replaced(turn, stored)}
    return stored, tuple(
        StoredImage(f"{prefix}{sha256}", ref, blobs[sha256], url)
        for sha256, (ref, url) in found.items()
    )


def _replaced(turn: Turn, stored: Turn) -> Iterator[tuple[ImageRef, str]]:
    """What stands in the place of each image, and the URL that did."""
    for one, other in zip(turn.messages, stored.messages, strict=True):
        if isinstance(one.content, tuple) and isinstance(other.content, tuple):
            for before, after in zip(one.content, other.content, strict=True):
                ref = ImageRef.parse((after.image_url or {}).get("url"))
                if before is not after and ref and before.image_url:
                    yield ref, str(before.image_url["url"])


class ImageCache:
    """What one client remembers; safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._stored: OrderedDict[str, None] = OrderedDict()
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0

    def unsent(self, images: Sequence[StoredImage]) -> set[str]:
        """The keys of those whose bytes Redis is not known to have."""
        if not images:
            return set()
        with self._lock:
            return {image.key for image in images if image.key not in self._stored}

    def sent(self, images: Sequence[StoredImage]) -> None:
        """Remember that Redis has them, and how they look."""
        if not images:
            return
        with self._lock:
            for image in images:
                self._stored[image.key] = None
                self._stored.move_to_end(image.key)
                self._keep(image.ref.url, image.url)
            while len(self._stored) > _MOST_KEYS:
                self._stored.popitem(last=False)

    def seen(self, refs: Collection[ImageRef]) -> tuple[dict[str, str | None], list[ImageRef]]:
        """The data URLs by reference that are remembered, and the images that are not."""
        with self._lock:
            known: dict[str, str | None] = {
                ref.url: self._urls[ref.url] for ref in refs if ref.url in self._urls
            }
            for url in known:
                self._urls.move_to_end(url)
        return known, [ref for ref in refs if ref.url not in known]

    def fetched(
        self, refs: Sequence[ImageRef], found: Sequence[bytes | None]
    ) -> dict[str, str | None]:
        """Data URLs by reference of what Redis answered, None for what it lacks; remembered."""
        urls = {
            ref.url: None if data is None else data_url(ref, data)
            for ref, data in zip(refs, found, strict=True)
        }
        with self._lock:
            for ref, url in urls.items():
                if url is not None:
                    self._keep(ref, url)
        return urls

    def _keep(self, ref: str, url: str) -> None:
        if len(url) > self._most_bytes:
            return
        self._bytes += len(url) - len(self._urls.pop(ref, ""))
        self._urls[ref] = url
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._urls.popitem(last=False)[1])
