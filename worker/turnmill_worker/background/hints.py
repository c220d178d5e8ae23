"""Hints between workers, through the Celery app; jobs done here where a full broker takes none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from turnmill.connection.transport import is_full
from turnmill.contract import jobs
from turnmill.contract.errors import TurnmillError
from turnmill_worker import telemetry
from turnmill_worker.ports.values import SessionRef


class CeleryHints:
    """The ``Hints`` port over a Celery app.

    Attributes:
        is_full: the last hint was refused because the broker is a Redis at ``maxmemory``.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.is_full = False

    def send(self, task: str, ref: SessionRef) -> bool:
        """Publish a hint; False when the broker failed, which the sweep will repair."""
        trace = telemetry.traceparent()
        try:
            self._app.send_task(
                task,
                args=(ref.namespace, ref.session),
                queue=jobs.QUEUE_OF[task],
                retry=False,
                ignore_result=True,
                **telemetry.headers({ref.session: trace} if trace else {}),
            )
        except Exception as error:
            self.is_full = is_full(error) or is_full(error.__cause__)
            if not self.is_full and not isinstance(error, OperationalError | OSError):
                raise
            return False
        self.is_full = False
        return True

    def waiting(self, task: str) -> int:
        """How many messages wait in the task's queue; 0 when it is not there, or no broker is."""
        with suppress(OperationalError, OSError), self._app.connection_or_acquire() as connection:
            gone = (*connection.channel_errors, *connection.connection_errors)
            with suppress(*gone):
                channel: Any = connection.default_channel
                declared = channel.queue_declare(queue=jobs.QUEUE_OF[task], passive=True)
                return int(declared.message_count)
        return 0


Job = Callable[[str, SessionRef], object]
"""Does the task of this name for the session; raises ``TurnmillError`` when it fails."""


class HintsOrJobs:
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
