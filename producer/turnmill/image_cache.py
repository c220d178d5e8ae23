"""What a client knows of images: whose bytes a push must carry, which a read must fetch; no I/O.

It remembers which images Redis has, and the data URLs of the newest it has seen, so that
showing an image again costs its hash and no more. Both are guesses: Redis says when it lacks one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence

from turnmill.contract.images.references import data_url
from turnmill.contract.images.stored import StoredImage
from turnmill.contract.images.token_cost import ImageRef

__all__ = ["DEFAULT_CACHE_BYTES", "ImageCache"]

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024

_MOST_KEYS = 10_000
"""Images believed to be in Redis: a megabyte or two of keys."""


class ImageCache:
    """What one client remembers; safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._stored: OrderedDict[str, None] = OrderedDict()
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0

    def unsent(self, images: Sequence[StoredImage]) -> set[str]:
        """The keys of the images that Redis is not known to have."""
        if not images:
            return set()
        with self._lock:
            return {image.key for image in images if image.key not in self._stored}

    def sent(self, images: Sequence[StoredImage]) -> None:
        """Remember that Redis has these images, and their data URLs."""
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
        """The remembered data URLs by reference, and the images that are not remembered."""
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
        """Data URLs by reference from Redis' answer, None for what it lacks; remembers them."""
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
