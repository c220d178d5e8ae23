"""What one call may cost: seconds from its beginning to its end, and bytes of its answer.

The HTTP library's timeouts bound one silence each: an endpoint that sends a byte now and then
could hold a thread for ever, and one that never ends its answer could fill the memory. So the
clock and the count are kept where all bytes of a call pass, from the connection's set-up to the
last of the body.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import httpcore2
import httpx2

from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.ports.work_while_waiting import waiting_begins

__all__ = ["MOST_BYTES", "Call", "bounded_client", "one_call"]

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of an answer with its headers: a hundred times what a long summary needs."""


_PIECE: Final = 16 * 1024


class Call:
    """A call under way, which one thread makes from its beginning to its end."""

    def __init__(self, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._read = 0

    @property
    def is_too_large(self) -> bool:
        """Whether its answer has more bytes than are allowed."""
        return self._read > MOST_BYTES

    def left_s(self, timeout_s: float | None, error: type[Exception]) -> float:
        """Seconds the next operation may take; raises the error when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise error
        return left if timeout_s is None else min(left, timeout_s)

    def add(self, received: int) -> None:
        """Counts what was read.

        Raises:
            httpcore2.ReadError: that is too much.
        """
        self._read += received
        if self.is_too_large:
            raise httpcore2.ReadError


_CALL: ContextVar[Call | None] = ContextVar("turnmill_model_call", default=None)


@contextmanager
def one_call(timeout_s: float) -> Iterator[Call]:
    """Everything this thread does over a bounded client in the block counts as one call."""
    call = Call(timeout_s)
    token = _CALL.set(call)
    try:
        yield call
    finally:
        _CALL.reset(token)


def bounded_client(client: httpx2.Client) -> httpx2.Client:
    """The client, new and unused, with all of its connections bounded, those to proxies too.

    Raises:
        SummarizerMisconfigured: the HTTP library has changed; nothing unbounded is used.
    """
    client.headers["Accept-Encoding"] = "identity"
    client.event_hooks["response"].append(_refuse_encoded)
    try:
        # A client takes proxies from the environment, and makes their transports itself.
        transports: list[Any] = [client._transport, *client._mounts.values()]  # noqa: SLF001
        for transport in transports:
            if transport is not None:
                pool = transport._pool  # noqa: SLF001
                pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001
    except AttributeError:
        message = f"httpx2 {httpx2.__version__}: its calls cannot be bounded; use another version"
    else:
        return client
    raise SummarizerMisconfigured(message)


def _refuse_encoded(response: httpx2.Response) -> None:
    # A few compressed bytes can hold very many, and nobody asked for compression.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("encoded", request=response.request)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _Stream:
        left = _left_s(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        waiting_begins()
        received = self._inner.read(max_bytes, _left_s(timeout, httpcore2.ReadTimeout))
        call = _CALL.get()
        if call is not None:
            call.add(len(received))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces: an endpoint that reads slowly must not hold us for one timeout per packet.
        for start in range(0, len(buffer), _PIECE):
            piece = buffer[start : start + _PIECE]
            self._inner.write(piece, _left_s(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Stream:
        left = _left_s(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left_s(timeout_s: float | None, error: type[Exception]) -> float | None:
    call = _CALL.get()
    return timeout_s if call is None else call.left_s(timeout_s, error)
