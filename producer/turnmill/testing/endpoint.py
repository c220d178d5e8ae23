"""A model endpoint on loopback: real HTTP, OpenAI shapes, and every way to fail on demand."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from turnmill.testing import api_shapes as shapes
from turnmill.testing.batch_api import Batches, BatchFault, answered
from turnmill.testing.faults import STATUS, Fault, Faults

_MODEL_PATHS = ("/v1/chat/completions", "/v1/responses")
_LOOKED_AT = "/v1/models"
"""Nothing is asked there: looks are not among the requests."""

_DRIP_S = 0.1
_HUGE_PIECE = b"## Goal of a text that has no end. " * 2048


class Load:
    """Counts requests that are in flight."""

    def __init__(self) -> None:
        self.now: int = 0
        self.peak: int = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One request is in flight."""
        with self._lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1


class FakeEndpoint:
    """Serves while it is entered; safe to use from any thread.

    Args:
        latency_s: how long each answer takes.
        script: the first requests' faults, in order of arrival.
        faults: probability of each fault for all others.
        seed: makes chance repeatable.
        key: the only key it accepts; any when empty.
        models: the models it has; any when empty.
        retry_after_s: what ``429-retry-after`` says.
        hang_s: how long ``timeout`` hangs and ``drip`` and ``huge`` go on, unless the endpoint
            closes before.
        batch_s: how long a batch takes.
        port: 0 takes a free one.
    """

    def __init__(  # noqa: PLR0913 - one knob each
        self,
        *,
        latency_s: float = 0.0,
        script: Sequence[Fault] = (),
        faults: Mapping[Fault, float] | None = None,
        seed: int = 0,
        key: str = "",
        models: Sequence[str] = (),
        retry_after_s: float = 1.0,
        hang_s: float = 60.0,
        batch_s: float = 0.0,
        port: int = 0,
    ) -> None:
        self.latency_s = latency_s
        self.key = key
        self.models: tuple[str, ...] = tuple(models)
        self.retry_after_s = retry_after_s
        self.hang_s = hang_s
        self.batches: Batches = Batches(batch_s)
        self.requests: list[shapes.Recorded] = []
        self.load: Load = Load()
        self.closing: threading.Event = threading.Event()
        self._faults = Faults(script, faults, seed)
        self._port = port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.closing.clear()
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is None or self._thread is None:
            return
        self.closing.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()
        self._server = None

    @property
    def base_url(self) -> str:
        """What a client's ``base_url`` is set to."""
        if self._server is None:
            raise RuntimeError("the endpoint serves only inside its with block")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def peak(self) -> int:
        """Most requests that were in flight at a time."""
        return self.load.peak

    def fail_next(self, *faults: Fault) -> None:
        """Answer the next requests with these faults, in order of arrival."""
        self._faults.ask(*faults)

    def fail_next_batches(self, *faults: BatchFault) -> None:
        """Let the next batches end with these faults, in order of creation."""
        self.batches.ask(*faults)

    def recover(self) -> None:
        """Answer every request well from now on."""
        self._faults = Faults()

    def answer(self, method: str, path: str, body: dict[str, Any], key: str) -> _Outcome:
        """Records a request and decides how it is answered."""
        known = path in _MODEL_PATHS or self.batches.knows(path)
        fault = self._faults.draw() if known else "ok"
        if fault == "ok" and self.key and key != self.key:
            fault = "401"
        if (
            fault == "ok"
            and self.models
            and path in _MODEL_PATHS
            and body.get("model") not in self.models
        ):
            fault = "404"
        recorded = shapes.Recorded(method=method, path=path, body=body, key=key, fault=fault)
        if path != _LOOKED_AT:
            self.requests.append(recorded)
        status = STATUS.get(fault, 200)
        if status != 200:  # noqa: PLR2004
            # Like real endpoints, it repeats what it was sent: none of that may reach a log.
            said = f"refused a request with key {key} that says {recorded.prompt[-200:]}"
            return _Outcome(fault, status, json.dumps(shapes.failure(status, said)).encode())
        if path == _LOOKED_AT:
            return _Outcome(fault, 200, json.dumps(shapes.models(self.models)).encode())
        if self.batches.knows(path) and fault not in ("malformed", "not-openai"):
            status, told = self.batches.answer(method, path, body)
            return _Outcome(fault, status, told)
        if path not in _MODEL_PATHS and not self.batches.knows(path):
            return _Outcome(fault, 404, json.dumps(shapes.failure(404, "no such path")).encode())
        if body.get("stream") and fault not in ("malformed", "not-openai"):
            return _Outcome(fault, 200, shapes.events(answered(recorded)), "text/event-stream")
        return _Outcome(fault, 200, _body(recorded))


@dataclass(frozen=True, slots=True)
class _Outcome:
    fault: Fault
    status: int
    body: bytes
    kind: str = "application/json"


def _body(recorded: shapes.Recorded) -> bytes:
    if recorded.fault == "malformed":
        return b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "## Go'
    if recorded.fault == "not-openai":
        return b'{"detail": "a proxy has something to say"}'
    return json.dumps(answered(recorded)).encode("utf-8", "replace")


class _Server(ThreadingHTTPServer):
    """One thread per connection, which clients keep open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    endpoint: FakeEndpoint

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no news."""

    def hang_up(self) -> None:
        """Ends connections that are kept open."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve({})

    def do_DELETE(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get("Content-Type") or ""
        try:
            is_form = kind.startswith("multipart/")
            body = shapes.uploaded(kind, raw) if is_form else json.loads(raw or b"{}")
        except ValueError:
            body = {}
        self._serve(body if isinstance(body, dict) else {})

    def log_message(self, *_: object) -> None:
        """Says nothing: what it is sent are conversations."""

    def _serve(self, body: dict[str, Any]) -> None:
        endpoint = self.server.endpoint
        key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        begun = time.monotonic()
        with endpoint.load.one():
            outcome = endpoint.answer(self.command, self.path.partition("?")[0], body, key)
            hangs = outcome.fault == "timeout"
            # The time to write the answer is part of the latency: a model has one, not a fake.
            left_s = endpoint.latency_s - (time.monotonic() - begun)
            endpoint.closing.wait(endpoint.hang_s if hangs else max(left_s, 0.0))
        if hangs:
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):
            self._send(outcome)

    def _send(self, outcome: _Outcome) -> None:
        head = [
            f"HTTP/1.1 {outcome.status} {HTTPStatus(outcome.status).phrase}",
            f"Content-Type: {outcome.kind}",
            "x-request-id: req_fake",
        ]
        if outcome.fault == "huge":
            self._send_endlessly(head)
            return
        head.append(f"Content-Length: {len(outcome.body)}")
        if outcome.fault == "429-retry-after":
            head.append(f"Retry-After: {self.server.endpoint.retry_after_s:g}")
        whole = "\r\n".join(head).encode() + b"\r\n\r\n" + outcome.body
        if outcome.fault == "drip":
            self._drip(whole, len(whole) - len(outcome.body))
            return
        broken = outcome.fault == "reset"
        # One write, or Nagle's algorithm and a delayed acknowledgement cost 40 ms.
        self.wfile.write(whole[: -len(outcome.body) * 3 // 4] if broken else whole)
        if broken:
            self._reset()

    def _drip(self, whole: bytes, at_once: int) -> None:
        endpoint = self.server.endpoint
        self.close_connection = True
        self.wfile.write(whole[:at_once])
        for byte in whole[at_once : at_once + int(endpoint.hang_s / _DRIP_S)]:
            if endpoint.closing.wait(_DRIP_S):
                return
            self.wfile.write(bytes((byte,)))

    def _send_endlessly(self, head: list[str]) -> None:
        endpoint = self.server.endpoint
        self.close_connection = True
        self.wfile.write("\r\n".join([*head, "Connection: close"]).encode() + b"\r\n\r\n")
        self.wfile.write(b'{"choices": [{"message": {"content": "')
        end = time.monotonic() + endpoint.hang_s
        # A pause, so that a client that reads it all is not out of memory within seconds.
        while time.monotonic() < end and not endpoint.closing.wait(0.001):
            self.wfile.write(_HUGE_PIECE)

    def _reset(self) -> None:
        # Lingering for 0 s sends a reset; socketserver would end it in an orderly way first.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        os.close(self.connection.detach())
