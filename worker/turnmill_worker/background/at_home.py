"""Jobs done where they were found: a broker that is full takes no hints, and only jobs empty it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from turnmill.contract.errors import TurnmillError
from turnmill_worker.background.celery_hints import CeleryHints
from turnmill_worker.ports.values import SessionRef

__all__ = ["AtHome", "Job"]

Job = Callable[[str, SessionRef], object]
"""Does the task of this name for the session; raises ``TurnmillError`` when it fails."""


class AtHome:
    """The sweep's hints; while the broker is at ``maxmemory``, its jobs run in this thread.

    The broker is asked first each time: what one job freed may be enough for the hints of others.
    """

    def __init__(self, hints: CeleryHints, job: Job) -> None:
        self._hints = hints
        self._job = job

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint, or do the job; False when neither could be."""
        if self._hints.send(task, ref):
            return True
        if not self._hints.is_full:
            return False
        with suppress(TurnmillError):  # logged and counted as that of any job
            self._job(task, ref)
        return True

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue."""
        return self._hints.waiting(task)
