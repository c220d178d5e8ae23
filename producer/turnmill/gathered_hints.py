"""Hints that leave together: one message for all sessions that wait to be counted."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from turnmill.contract import jobs

__all__ = ["GatheredHints", "Message"]

PAUSE_S: Final = 0.04
"""Between two messages. The first hint after a pause leaves at once; later ones gather."""

LONGEST_PAUSE_S: Final = 0.15
"""The pause behind a message with several hints: each more makes it longer, up to this."""

MOST: Final = 64
"""Hints in one message."""


class Message(NamedTuple):
    """A Celery message, and how many hints it stands for."""

    task: str
    words: tuple[object, ...]
    hints: int


class GatheredHints:
    """The sessions to estimate that no message names yet, by namespace."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[str]] = {}
        self._number = 0
        self._next_s = 0.0

    def add(self, namespace: str, session: str) -> bool:
        """Add a hint; True when it is time to take them, however soon."""
        self._sessions.setdefault(namespace, []).append(session)
        self._number += 1
        return self._number >= MOST

    @property
    def wait_s(self) -> float | None:
        """When to take them; None while there are none."""
        return max(self._next_s - time.monotonic(), 0.0) if self._sessions else None

    def take(self) -> list[Message]:
        """All of them as messages, the oldest first."""
        pause_s = min(PAUSE_S * max(self._number, 1), LONGEST_PAUSE_S)
        self._next_s = time.monotonic() + pause_s
        taken, self._sessions, self._number = self._sessions, {}, 0
        return [
            Message(jobs.ESTIMATE, _words(namespace, list(dict.fromkeys(hints))), len(hints))
            for namespace, hints in taken.items()
        ]


def _words(namespace: str, sessions: list[str]) -> tuple[object, ...]:
    """A worker that knows no others counts the first; pushes or the sweep hint the others again."""
    first, *others = sessions
    return (namespace, first, others) if others else (namespace, first)
