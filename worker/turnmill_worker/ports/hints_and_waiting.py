"""What makes a worker look at a session: a hint, or its turn among those that wait."""

from __future__ import annotations

from typing import Protocol

from turnmill_worker.ports.values import SessionRef

__all__ = ["Hints", "Waiting"]


class Hints(Protocol):
    """Tells workers to look at a session; best effort."""

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when that failed, and the sweep will repair it."""


class Waiting(Protocol):
    """The sessions that wait for a summary, over all namespaces."""

    def add(self, ref: SessionRef, *, room: float) -> None:
        """Have the session wait; ``room`` is the share of it that is left, least comes first.

        Who has waited for long comes before who has less room.
        """

    def take(self) -> SessionRef | None:
        """Whose turn it is: namespaces take turns; None when nobody waits."""
