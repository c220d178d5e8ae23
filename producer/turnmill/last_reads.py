"""Remembers as which context each session was last read: usage that is told is of that."""

from __future__ import annotations

from turnmill.context import Context
from turnmill.contract.correction import Told, input_tokens

__all__ = ["LastReads"]

MOST = 10_000
"""Sessions remembered; those read longest ago are forgotten first."""


class LastReads:
    """Version and newest seq of the last context, by session."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def note(self, context: Context) -> None:
        """Remember it; of a projected one nobody knows what it was counted as."""
        self._last.pop(context.session, None)
        if context.projection is None:
            self._last[context.session] = (context.version, context.last_seq)
            if len(self._last) > MOST:
                self._last.pop(next(iter(self._last)), None)

    def told(self, session: str, usage: object) -> Told | None:
        """What ``usage`` tells of the session's last read here; None where there is none.

        Each read counts once.

        Raises:
            InvalidInput: it is no usage.
        """
        if usage is None:
            return None
        tokens = input_tokens(usage)
        last = self._last.pop(session, None)
        return None if last is None else Told(tokens, *last)
