"""Notices that Redis returned to an earlier state: it gives out a seq that it gave before."""

from __future__ import annotations

import logging
import time
from typing import Any, Final, NamedTuple

from turnmill.commands import PushCall

__all__ = ["GivenSeqs"]

log: Final = logging.getLogger("turnmill")

MOST = 10_000
"""Sessions remembered; those pushed to longest ago are forgotten first."""


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
        """Remember the push's seq; one warning when turns that were acknowledged are gone."""
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
        if len(self._newest) > MOST:
            self._newest.pop(next(iter(self._newest)), None)
