"""What a client remembers between calls: images, reads, and seqs that were given; no I/O.

Which images Redis has, and the data URLs of the newest that were seen, so that showing an image
again costs its hash and no more. Both are guesses: Redis says when it lacks one. Of a session what
its last read found, so that the next one asks for what is new; and the newest seq that was given,
so that a client notices when Redis returned to an earlier state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.image_tokens import ImageRef
from turnmill.contract.images import StoredImage, data_url
from turnmill.push.push_calls import PushCall
from turnmill.read.reply import Known

log: Final = logging.getLogger("turnmill")

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of contexts and turns together; sessions read longest ago are forgotten first."""

MOST_GIVEN = 10_000
"""Sessions whose newest seq is remembered; those pushed to longest ago are forgotten first."""

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


class LatelyRead:
    """The last reads of one client, by session; safe to share between threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._bytes = 0

    def take(self, session: str) -> Known | None:
        """What is known of it; nothing is from now on, so that no two reads add to the same."""
        with self._lock:
            known = self._known.pop(session, None)
            self._bytes -= known.size if known else 0
            return known

    def encoding(self, session: str) -> str:
        """What the session's policy counts by since its last read; ``""`` if that is not known."""
        with self._lock:
            known = self._known.get(session)
        return known.view.policy.encoding if known else ""

    def keep(self, known: Known) -> None:
        """Remember what a read found, if there is room."""
        if known.since is None or known.size > self._most_bytes:
            return
        with self._lock:
            before = self._known.pop(known.session, None)
            self._known[known.session] = known
            self._bytes += known.size - (before.size if before else 0)
            while self._bytes > self._most_bytes:
                self._bytes -= self._known.popitem(last=False)[1].size


class _Newest(NamedTuple):
    epoch: bytes
    seq: int
    at_ns: int


class GivenSeqs:
    """The newest seq that each session was given here, by the epoch of its incarnation."""

    def __init__(self) -> None:
        self._newest: dict[str, _Newest] = {}

    @staticmethod
    def dated(push: PushCall) -> PushCall:
        """The push, with the time before it is sent."""
        return push._replace(made_ns=time.monotonic_ns())

    def note(self, push: PushCall, reply: Any) -> None:
        """Remember the push's seq; one warning when turns that were acknowledged are gone.

        And one for each turn that was cut.
        """
        if push.cut:
            log.warning(
                "turn of session %r too large: %d characters of it cut", push.session, push.cut
            )
        seq, epoch = reply[0], reply[4]
        if not epoch:  # nothing was stored, or it was there already
            return
        known = self._newest.pop(push.session, None)
        if known and known.epoch == epoch and seq <= known.seq:
            # Pushes at the same time are answered in any order.
            if push.made_ns < known.at_ns:
                self._newest[push.session] = known
                return
            log.warning(
                "Redis returned to an earlier state: turns %d to %d of session %r that were "
                "acknowledged are gone",
                *(seq, known.seq, push.session),
            )
        self._newest[push.session] = _Newest(epoch, seq, time.monotonic_ns())
        if len(self._newest) > MOST_GIVEN:
            self._newest.pop(next(iter(self._newest)), None)
