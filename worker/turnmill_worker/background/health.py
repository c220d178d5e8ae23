"""The port at which a worker says how it is doing: ``/metrics``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog

log = structlog.get_logger()

TRY_AGAIN_S: Final = 5.0
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

Check = Callable[[], object]
"""Raises what is wrong."""


class HealthServer:
    """Answers in threads of its own, whatever the worker does meanwhile."""

    def __init__(
        self, address: tuple[str, int], metrics: Callable[[], str], ready: Mapping[str, Check]
    ) -> None:
        self._address = address
        self._metrics = metrics
        self._ready = ready
        self._stopping = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread = threading.Thread(target=self._run, name="turnmill-health", daemon=True)

    def start(self) -> None:
        """Begin to listen; while another has the port, try again."""
        self._thread.start()

    def stop(self) -> None:
        """Be ready no longer: the worker ends when its tasks are done, and answers until then."""
        self._stopping.set()

    def forked(self) -> None:
        """Listen no longer in this process, which was forked."""
        if self._server is not None:
            self._server.socket.close()

    def answer(self, path: str) -> tuple[int, str]:
        """Status and body."""
        match path.partition("?")[0]:
            case "/metrics":
                return 200, self._metrics()
            case "/healthz":
                return 200, "worker ok\n"
            case "/readyz":
                found = {"worker": "stopping" if self._stopping.is_set() else "ok"}
                found |= {name: _found(check) for name, check in self._ready.items()}
                is_ready = set(found.values()) == {"ok"}
                told = "".join(f"{name} {each}\n" for name, each in found.items())
                return (200 if is_ready else 503), told
        return 404, "/metrics, /healthz, /readyz\n"

    def _run(self) -> None:
        was_told = False
        while self._server is None:
            try:
                self._server = ThreadingHTTPServer(self._address, _handler(self.answer))
            except OSError as error:
                if not was_told:
                    log.warning("metrics port not to be had", port=self._address[1], why=str(error))
                was_told = True
                if self._stopping.wait(TRY_AGAIN_S):
                    return
        self._server.daemon_threads = True
        self._server.serve_forever()


def _found(check: Check) -> str:
    try:
        check()
    except Exception as error:  # noqa: BLE001 - whatever it is, the worker is not ready
        return type(error).__name__
    return "ok"


def _handler(answer: Callable[[str], tuple[int, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            status, told = answer(self.path)
            body = told.encode()
            self.send_response(status)
            self.send_header("Content-Type", TEXT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log no request."""

    return Handler
