"""What a client knows of the sessions that it read lately, so that a read asks for what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from turnmill.read_reply import Known

__all__ = ["LatelyRead"]

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of contexts and turns together; sessions read longest ago are forgotten first."""


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
