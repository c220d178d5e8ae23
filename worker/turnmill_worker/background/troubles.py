"""Namespaces whose own lists are damaged: said in the log, and kept for `turnmill doctor`."""

from __future__ import annotations

import time

import structlog

from turnmill.contract.names import Namespace
from turnmill_worker.ports.sweep import SweepLists, Trouble

__all__ = ["Troubles"]

log = structlog.get_logger()

KEPT_S = 60.0
"""A trouble is told for this long, and logged once in this time."""

TELL_EVERY_S = 10.0


class Troubles:
    """What went wrong in namespaces within the last minute, for one sweeper."""

    def __init__(self, lists: SweepLists) -> None:
        self._lists = lists
        self._known: dict[Namespace, Trouble] = {}
        self._since: dict[Namespace, float] = {}
        self._told_s = 0.0

    def tell(self) -> None:
        """Log what is new, and say in Redis what is wrong."""
        now_s = time.monotonic()
        before = len(self._known)
        for name in [name for name, at in self._since.items() if now_s - at >= KEPT_S]:
            del self._known[name], self._since[name]
        is_new = False
        for name, trouble in self._lists.take_troubles().items():
            known = self._known.setdefault(name, Trouble())
            known.why = trouble.why or known.why
            known.errors += trouble.errors
            known.dropped += trouble.dropped
            if name not in self._since:
                self._since[name], is_new = now_s, True
                log.warning("namespace damaged", namespace=name, **_told(trouble))
        changed = is_new or len(self._known) != before
        if changed or (self._known and now_s - self._told_s >= TELL_EVERY_S):
            self._lists.tell(self._known)
            self._told_s = now_s


def _told(trouble: Trouble) -> dict[str, object]:
    return {"error": trouble.why, "errors": trouble.errors, "dropped": trouble.dropped}
