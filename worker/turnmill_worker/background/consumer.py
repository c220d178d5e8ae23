"""Celery's consumer, for a broker that anybody may have written to, that dies, or that is full.

Celery ends a worker that meets a message it did not expect, and puts the message back for the next
one. Whoever can write to the broker could so stop all workers. Here a message is looked at before
Celery does anything with it: it is a hint in the form that clients and workers send, or it is put
aside.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Final

import structlog
from celery.worker.consumer import Consumer
from kombu.transport import virtual

from turnmill.contract.errors import TurnmillError
from turnmill.hint.thrifty_broker import SENT
from turnmill.telemetry import HEADER, traces_in
from turnmill_worker.store.reports import RedisQuarantine

MOST_BYTES: Final = 64 * 1024
"""A hint has some 500 bytes: names, and no content."""

_FORMAT: Final = ("application/json", "utf-8")

_WORD = re.compile(r"[!-~]{1,250}\Z")

_OUR_TASK = re.compile(r"turnmill\.[a-z_]{1,40}\Z")

_HEADERS: Final[Mapping[str, tuple[type, ...]]] = {
    "lang": (str,),
    "task": (str,),
    "id": (str,),
    "root_id": (str, type(None)),
    "parent_id": (str, type(None)),
    "origin": (str, type(None)),
    "retries": (int, type(None)),
    "ignore_result": (bool, type(None)),
    # Nothing is sent to be done later: it would wait in the memory of a worker.
    "eta": (type(None),),
    "expires": (type(None),),
    "timelimit": (list, type(None)),
}
"""What a hint's headers may say. Celery acts on others too, and nobody here sends them."""

LATEST_MS: Final = 2**53
"""A time after that is none."""

_NAMES: Final = frozenset({"id", "task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMessage:
    """A message that was put aside, without a word of it: whoever sent it knows its digest.

    Attributes:
        why: what is wrong with it.
        size: the bytes of its body, as far as it has one.
        headers: the types of the headers that a hint has.
    """

    why: str
    queue: str
    size: int
    sha256: str
    headers: str

    @classmethod
    def of(cls, why: str, queue: object, body: object, headers: object) -> BadMessage:
        """What may be said of it."""
        raw = body if isinstance(body, bytes) else str(body or "").encode("utf-8", "replace")
        known = headers if isinstance(headers, Mapping) else {}
        types = [f"{name}:{type(known[name]).__name__}" for name in _HEADERS if name in known]
        return cls(
            why=why,
            queue=queue if isinstance(queue, str) and _WORD.match(queue) else "?",
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
            headers=" ".join(types),
        )


def look_at(message: Any, tasks: Collection[str]) -> str:
    """Why the message is no hint for one of these tasks, or ``""``.

    What it raises for a message that cannot be decoded is a reason too.
    """
    if len(message.body or b"") > MOST_BYTES:
        return "too large"
    if (message.content_type, message.content_encoding) != _FORMAT:
        return "not in JSON"
    if why := _headers_problem(message.headers):
        return why
    if (task := message.headers["task"]) not in tasks:
        # Perhaps of a newer version; anything else may be no name at all.
        return f"unknown task {task}" if _OUR_TASK.match(task) else "unknown task"
    return "" if _is_call(message.payload) else "body is no call"


def clean_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """What of the headers Celery may see, if ``look_at`` found nothing wrong."""
    said = {name: headers[name] for name in _HEADERS if name in headers}
    told = {name: headers.get(name) for name in ("argsrepr", "kwargsrepr")}
    said |= {name: text for name, text in told.items() if isinstance(text, str)}
    sent_ms, traces = headers.get(SENT), traces_in(headers.get(HEADER))
    if type(sent_ms) is int and 0 < sent_ms < LATEST_MS:
        said[SENT] = sent_ms
    return said | ({HEADER: traces} if traces else {})


def _headers_problem(headers: object) -> str:
    if not isinstance(headers, Mapping) or not headers.keys() >= _NAMES:
        return "no task named"
    for name, types in _HEADERS.items():
        value = headers.get(name)
        if name in headers and type(value) not in types:
            return f"header {name}"
        if isinstance(value, str) and not _WORD.match(value):
            return f"header {name}"
    limits = headers.get("timelimit")
    return "header timelimit" if limits and limits != [None, None] else ""


def _is_call(payload: object) -> bool:
    """Whether it is arguments and nothing to do after them, as Celery packs a call."""
    match payload:
        case [list(), dict(), dict() as embedded]:
            return not any(embedded.values())
    return False


log = structlog.get_logger()

LOG_EVERY_S = 1.0
"""A line of the log for each of the first, and then one in a second at most: there may be many."""

FIRST_LOGGED = 20

TRY_AGAIN_S = 30.0
"""While Redis fails, the worker does not wait for it more often."""

MOST_WAITING = 100


class Quarantine:
    """Of one worker process."""

    def __init__(self, connect: Callable[[], RedisQuarantine]) -> None:
        self._connect = connect
        self._waiting: deque[BadMessage] = deque(maxlen=MOST_WAITING)
        self._count, self._listed = 0, 0
        self._next_line_s, self._next_try_s = -math.inf, -math.inf

    def put_aside(self, message: BadMessage) -> None:
        """Count a message, and tell of it as far as there is room."""
        self._count += 1
        self._waiting.append(message)
        now_s = time.monotonic()
        if self._count <= FIRST_LOGGED or now_s >= self._next_line_s:
            self._next_line_s = now_s + LOG_EVERY_S
            log.warning("quarantined", **asdict(message), so_far=self._count)
        if now_s >= self._next_try_s:
            self._list(now_s)

    @cached_property
    def _store(self) -> RedisQuarantine:
        return self._connect()

    def _list(self, now_s: float) -> None:
        try:
            entries = [asdict(each) for each in self._waiting]
            self._store.add(entries, count=self._count - self._listed)
        except TurnmillError:
            self._next_try_s = now_s + TRY_AGAIN_S
            return
        self._waiting.clear()
        self._listed = self._count


PAUSE_S: Final = 1.0

EVENTS_EVERY_S: Final = 0.3
"""How long events of tasks gather: each message of them costs what a job's own message does."""


class PatientConsumer(Consumer):
    """Goes on when the broker goes away, and tries each second while it refuses commands."""

    channel_errors: tuple[type[BaseException], ...]
    connection_errors: tuple[type[BaseException], ...]
    connection: Any
    hub: Any
    _flush_events: Callable[[], None]
    _events_due = 0.0

    def connection_for_read(self, heartbeat: Any = None) -> Any:
        """As Celery's, remembered until it is in use."""
        self._newest = super().connection_for_read(heartbeat)
        return self._newest

    def connect(self) -> Any:
        """As Celery's, which would leave a connection open that could not be used."""
        try:
            return super().connect()
        except self.channel_errors:
            self._newest.release()
            raise

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """As Celery's, which would try again at once."""
        super().on_connection_error_before_connected(exc)
        self._rest(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """As Celery's, which would try again at once, and can end the worker here.

        Where several of its sockets break, Celery closes a connection twice, and kombu would give
        fetched messages back over it, although it knows the broker's address no longer.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError:
            if self.connection is not None:
                raise
        self._rest(exc)

    def on_send_event_buffered(self) -> Any:
        """Publish events with those that follow soon; Celery does so in each round of its loop."""
        now = time.monotonic()
        # Not a flag: a loop that begins anew has forgotten what it was to do later.
        if self.hub is not None and now >= self._events_due:
            self._events_due = now + EVENTS_EVERY_S
            self.hub.call_later(EVENTS_EVERY_S, super().on_send_event_buffered)

    def stop(self) -> None:
        """As Celery's; what happened last is published first."""
        with suppress(*self.channel_errors, *self.connection_errors):
            self._flush_events()
        super().stop()

    def _rest(self, error: Exception) -> None:
        if isinstance(error, self.channel_errors):
            time.sleep(PAUSE_S)


celery_log = logging.getLogger(__name__)


class CarefulConsumer(PatientConsumer):
    """Puts aside every message that is no hint, and goes on.

    ``put_aside`` is called with each, in the thread that consumes; it must not raise.
    """

    strategies: dict[str, Any]
    connection_errors: tuple[type[BaseException], ...]

    def __init__(self, *args: Any, put_aside: Callable[[BadMessage], None], **options: Any) -> None:
        self._put_aside = put_aside
        super().__init__(*args, **options)

    def ensure_connected(self, conn: Any) -> Any:
        """As Celery's; messages that the transport cannot unpack arrive here, too."""
        make = conn.create_transport

        def careful_transport() -> Any:
            transport: Any = make()
            if isinstance(transport, virtual.Transport):
                transport.Channel = _careful(transport.Channel, self._put_aside)  # type: ignore[arg-type]  # a class is hashable
            return transport

        # Not once: a list of brokers gets a new transport with each that it turns to.
        conn.create_transport = careful_transport
        return super().ensure_connected(conn)

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """As Celery's, for messages that are hints."""
        handle = super().create_task_handler(*args, **options)

        def received(message: Any) -> Any:
            try:
                why = look_at(message, self.strategies.keys())
            except Exception as error:  # noqa: BLE001 - any message's any defect
                why = type(error).__name__
            if why:
                return self._drop(message, why)
            message.headers = clean_headers(message.headers)
            return handle(message)

        return received

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Celery would log the message's words."""
        self._drop(message, type(exc).__name__)

    def _drop(self, message: Any, why: str) -> None:
        queue = (message.delivery_info or {}).get("routing_key")
        self._put_aside(BadMessage.of(why, queue, message.body, message.headers))
        # Rejected, not acknowledged: RabbitMQ may have an exchange for what is rejected.
        message.reject_log_error(celery_log, self.connection_errors)


@cache
def _careful(channel: Any, put_aside: Callable[[BadMessage], None]) -> Any:
    """A channel for which everything in a queue is a message, though perhaps a bad one."""

    class CarefulMessage(channel.Message):  # type: ignore[misc]
        def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
            try:
                super().__init__(_envelope(payload), channel=channel, **options)
            except Exception:  # noqa: BLE001 - any message's any defect
                defect = sys.exc_info()
                super().__init__(_NOTHING | {"properties": _own({})}, channel=channel, **options)
                self.errors.append(defect)
                self.body = payload.get("body") if isinstance(payload, dict) else payload

    class CarefulChannel(channel):  # type: ignore[misc]
        Message = CarefulMessage

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if hasattr(self, "ack_emulation"):
                # Copies in Redis would cost more than the job's message, and come back in an hour.
                self.ack_emulation = False
                self.QoS = _InMemory

        def _brpop_read(self, **options: Any) -> Any:
            return _read(super()._brpop_read, put_aside, **options)

        def _receive(self) -> Any:
            return _read(super()._receive, put_aside)

    return CarefulChannel


class _InMemory(virtual.QoS):
    """The messages that a worker has and has not begun; they go back when it ends."""

    _delivered: Any
    _flush: Callable[[], None]

    def restore_unacked(self) -> None:
        """Put them back; if the broker is gone, the sweep hints them again."""
        self._flush()
        with suppress(Exception):
            while self._delivered:
                self.channel._restore(self._delivered.popitem(last=False)[1])  # noqa: SLF001
        self._delivered.clear()


def _read(read: Callable[..., Any], put_aside: Callable[[BadMessage], None], **options: Any) -> Any:
    """What was read; what is not even JSON is in no queue any more, and is only told of."""
    try:
        return read(**options)
    except (ValueError, RecursionError) as error:
        words = getattr(error, "doc", None) or getattr(error, "object", b"")
        put_aside(BadMessage.of("not JSON", "", words, None))
        return True


def _envelope(payload: Any) -> dict[str, Any]:
    """What is around a message's body, as the transports of kombu rely on it.

    Raises:
        ValueError, TypeError, KeyError: it is not.
    """
    properties, headers, body = payload["properties"], payload["headers"], payload["body"]
    where = properties["delivery_info"]
    if not all(isinstance(each, dict) for each in (properties, headers, where)):
        raise TypeError
    if not all(isinstance(where[name], str) for name in ("exchange", "routing_key")):
        raise TypeError
    # Nobody here compresses: a few bytes could become very many.
    if "compression" in headers or len(body) > 2 * MOST_BYTES:
        raise ValueError
    return dict(payload) | {"properties": _own(properties)}


_NOTHING: dict[str, Any] = {
    "body": "",
    "headers": {},
    "content-type": None,
    "content-encoding": None,
}


def _own(properties: dict[str, Any]) -> dict[str, Any]:
    """The properties with a tag made here: a sender could have chosen that of another message."""
    where = properties.get("delivery_info") or {"exchange": "", "routing_key": ""}
    return properties | {"delivery_tag": uuid.uuid4().hex, "delivery_info": where}
