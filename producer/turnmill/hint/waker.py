"""Hints: telling workers that a session has something new, without ever holding up an agent.

A hint is best effort. It is published from a thread of its own, so a push never waits for a
broker, in sync and async code alike; a broker that is down costs a counter, and the sweep finds
the session in its backlog. Celery is imported in that thread, for the first hint.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from turnmill import telemetry
from turnmill.connection.urls import celery_broker
from turnmill.contract import jobs
from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import Namespace, SessionId

if TYPE_CHECKING:
    from celery import Celery


PAUSE_S: Final = 0.04
"""Between two messages. The first hint after a pause leaves at once; later ones gather."""

LONGEST_PAUSE_S: Final = 0.15
"""The pause behind a message with several hints: each more makes it longer, up to this."""

MOST: Final = 64
"""Hints in one message."""


class Message(NamedTuple):
    """A Celery message, and how many hints it stands for.

    Attributes:
        traces: by session, the span that the hint came from, where somebody traces.
    """

    task: str
    words: tuple[object, ...]
    hints: int
    traces: dict[str, str]


class GatheredHints:
    """The sessions to estimate that no message names yet, by namespace."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[str]] = {}
        self._traces: dict[str, dict[str, str]] = {}
        self._number = 0
        self._next_s = 0.0

    def add(self, namespace: str, session: str, *, trace: str = "") -> bool:
        """Add a hint; True when it is time to take them, however soon."""
        self._sessions.setdefault(namespace, []).append(session)
        if trace:
            self._traces.setdefault(namespace, {})[session] = trace
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
        traces, self._traces = self._traces, {}
        return [
            Message(
                jobs.ESTIMATE,
                _words(namespace, list(dict.fromkeys(hints))),
                len(hints),
                traces.get(namespace, {}),
            )
            for namespace, hints in taken.items()
        ]


def _words(namespace: str, sessions: list[str]) -> tuple[object, ...]:
    """A worker that knows no others counts the first; pushes or the sweep hint the others again."""
    first, *others = sessions
    return (namespace, first, others) if others else (namespace, first)


importing: Final = threading.RLock()
# A child forked in the middle of an import would wait for ever for the thread that it lacks.
os.register_at_fork(
    before=importing.acquire,
    after_in_parent=importing.release,
    after_in_child=importing.release,
)


def celery_class() -> type[Celery]:
    """Celery, imported on first use."""
    with importing:
        from celery import Celery  # noqa: PLC0415 - as slow to import as all the rest

    return Celery


def hint_app(broker_url: str, *, timeout_s: float) -> Celery:
    """A Celery app that only publishes, and gives up on a broker within ``timeout_s``."""
    amqp = "turnmill.hint.thrifty_broker:ThriftyAmqp"
    app = celery_class()("turnmill.hints", set_as_current=False, amqp=amqp)
    from kombu import Exchange, Queue  # noqa: PLC0415 - Celery has imported it

    app.conf.update(
        **celery_broker(broker_url).settings(
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry_on_timeout=False,
            max_retries=0,
        ),
        broker_pool_limit=1,
        broker_connection_timeout=timeout_s,
        broker_connection_retry=False,
        broker_connection_max_retries=0,
        task_ignore_result=True,
        task_serializer="json",
        # Queues are the workers' to declare: who only publishes needs no right to do more.
        task_queues=[Queue(q, Exchange(""), routing_key=q, no_declare=True) for q in jobs.QUEUES],
    )
    return app


CLOSE_WITHIN_S = 0.1
"""How long ``close`` waits for hints still to be published; the sweep repairs the rest."""

HEAD_START_S = 0.05
"""How long the import of Celery waits: the push that made the first hint is over by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintCounts:
    """What became of this process's hints.

    Attributes:
        published: handed to the broker.
        dropped: not published, because the broker failed, was cooling down, or too many waited.
    """

    published: int = 0
    dropped: int = 0


class Waker(Protocol):
    """Whoever tells the workers; must return at once and never raise."""

    def wake(
        self, namespace: Namespace, session: SessionId, *, task: str = jobs.ESTIMATE, ask: str = ""
    ) -> None:
        """Hint a look at the session, or the job that answers the question ``ask``."""

    def close(self) -> None:
        """Publish what waits, within a tenth of a second, and let go of the broker."""

    @property
    def counts(self) -> HintCounts:
        """What became of the hints so far."""


class SilentWaker:
    """Publishes nothing: the sweep finds the sessions, seconds later."""

    def __init__(self) -> None:
        self._dropped = 0

    def wake(
        self, namespace: Namespace, session: SessionId, *, task: str = jobs.ESTIMATE, ask: str = ""
    ) -> None:
        """Count the hint as dropped.

        Raises:
            InvalidInput: somebody would wait for an answer that cannot come.
        """
        if ask:
            raise InvalidInput(
                f"{task} of {session!r} in {namespace!r} asks a worker, and this client reaches "
                "none: give it the broker's URL, ContextClient(…, broker=…)"
            )
        self._dropped += 1

    def close(self) -> None:
        """Do nothing."""

    @property
    def counts(self) -> HintCounts:
        """All hints count as dropped."""
        return HintCounts(dropped=self._dropped)


class CeleryWaker:
    """Publishes hints to a Celery broker, one thread per process.

    ``wake`` costs a few microseconds whatever the broker does. The thread gives a broker
    ``timeout_s`` seconds; after a failure it tries nothing for ``cool_down_s`` seconds. At most
    ``max_waiting`` hints wait.
    """

    def __init__(
        self,
        broker_url: str,
        *,
        timeout_s: float = 1.0,
        cool_down_s: float = 1.0,
        max_waiting: int = 10_000,
    ) -> None:
        celery_broker(broker_url)  # its error is the caller's, not the thread's
        self._broker_url = broker_url
        self._timeout_s = timeout_s
        self._cool_down_s = cool_down_s
        self._max_waiting = max_waiting
        self._published = 0
        self._dropped = 0
        self._start = threading.Lock()
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        self._waiting: queue.Queue[tuple[str, tuple[str, ...], str] | None] = queue.Queue(
            self._max_waiting
        )
        self._thread: threading.Thread | None = None
        self._app: Celery | None = None
        self._quiet_until = 0.0
        self._closing = threading.Event()
        self._pid = os.getpid()

    @property
    def counts(self) -> HintCounts:
        """What became of the hints so far."""
        return HintCounts(published=self._published, dropped=self._dropped)

    def wake(
        self, namespace: Namespace, session: SessionId, *, task: str = jobs.ESTIMATE, ask: str = ""
    ) -> None:
        """Hint a look at the session, or at a question; returns at once and never raises."""
        if self._thread is None or self._pid != os.getpid():
            self._start_thread()
        words = (namespace, session, *((ask,) if ask else ()))
        try:
            self._waiting.put_nowait((task, words, telemetry.traceparent()))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Publish what waits, within a tenth of a second, and end the thread."""
        atexit.unregister(self.close)
        thread = self._thread
        if thread is None or self._pid != os.getpid():
            return
        self._thread = None
        self._closing.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        with suppress(Exception):  # who exits while it is imported loses a hint, no more
            celery_class()  # what is left of its import is not counted as time to publish
        thread.join(CLOSE_WITHIN_S)
        if self._app is not None and not thread.is_alive():
            self._app.close()

    def _start_thread(self) -> None:
        with self._start:
            if self._pid != os.getpid():
                # Forked: the parent's thread is not here, and its connections are not ours.
                if "kombu.pools" in sys.modules:
                    sys.modules["kombu.pools"].reset()
                self._reset()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._publish_all, name="turnmill-hints", daemon=True
                )
                self._thread.start()

    def _publish_all(self) -> None:
        gathered = GatheredHints()
        while True:
            try:
                hint = self._waiting.get(timeout=gathered.wait_s)
            except queue.Empty:
                self._publish(gathered.take())
                continue
            if hint is None:
                break
            task, words, trace = hint
            if task != jobs.ESTIMATE:
                traces = {words[1]: trace} if trace else {}
                self._publish([Message(task, words, 1, traces)])
            elif gathered.add(*words, trace=trace):
                self._publish(gathered.take())
        self._publish(gathered.take())

    def _publish(self, messages: Iterable[Message]) -> None:
        for task, words, hints, traces in messages:
            if time.monotonic() < self._quiet_until:
                self._dropped += hints
                continue
            try:
                self._app = self._app or self._publisher()
                self._app.send_task(
                    task,
                    args=words,
                    queue=jobs.QUEUE_OF[task],
                    retry=False,
                    ignore_result=True,
                    **telemetry.headers(traces),
                )
                self._published += hints
            except Exception:  # noqa: BLE001 - any broker's any failure: the sweep repairs it
                self._dropped += hints
                self._quiet_until = time.monotonic() + self._cool_down_s

    def _publisher(self) -> Celery:
        """An app that has imported all that a message takes."""
        self._closing.wait(HEAD_START_S)
        with importing:
            app = hint_app(self._broker_url, timeout_s=self._timeout_s)
            transport = app.connection_for_write().transport_cls
            # Otherwise the first message would import them, and one may fork in the middle of it.
            _ = app.amqp, app.backend, app.events.Dispatcher, transport
        return app


def waker_for(redis_url: object, broker: str | Waker | None) -> Waker:
    """The waker a client uses: the one given, one for the broker's URL, or for the same Redis."""
    if broker is None:
        return CeleryWaker(redis_url) if isinstance(redis_url, str) else SilentWaker()
    return CeleryWaker(broker) if isinstance(broker, str) else broker
