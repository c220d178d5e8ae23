"""What makes a worker look at a session: a hint, or its turn among those that wait."""

from __future__ import annotations

from typing import Protocol

from turnmill_worker.ports.values import SessionRef

__all__ = ["Hints", "Waiting"]


class Hints(Protocol):
    """Tells workers to look at a session; best effort."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when that failed, which the sweep will repair."""

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue."""


class Waiting(Protocol):
    """The sessions that wait for a summary, over all namespaces."""

    def add(self, ref: SessionRef, *, room: float) -> int:
        """Let the session wait; the one with the smallest share of its ``room`` left comes first.

        A session that has waited for long comes before one with less room. Returns 0 when it did
        not wait before, else how many sessions wait, at least.
        """

    def take(self) -> SessionRef | None:
        """The session whose turn it is; namespaces take turns. None when none waits."""
