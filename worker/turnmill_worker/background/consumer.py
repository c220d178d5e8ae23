"""Celery's consumer, for a broker that anybody may have written to."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from kombu.transport import virtual

from turnmill_worker.background.broker_messages import (
    MOST_BYTES,
    BadMessage,
    clean_headers,
    look_at,
)
from turnmill_worker.background.patient_consumer import PatientConsumer

__all__ = ["CarefulConsumer"]

log = logging.getLogger(__name__)


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
        message.reject_log_error(log, self.connection_errors)


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
