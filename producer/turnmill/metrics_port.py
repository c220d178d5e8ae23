"""The port at which a worker or a server says how it is doing, and its numbers for Prometheus.

It answers ``/metrics``, ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from turnmill.telemetry import Instrument

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

Check = Callable[[], object]
"""Raises what is wrong."""

Labels = tuple[tuple[str, str], ...]
Numbers = dict[tuple[str, Labels], list[float]]
"""By name and labels: a value; or of a histogram how many values, their sum, and its buckets."""


class HealthServer:
    """Answers in threads of its own, whatever the process does meanwhile, by its ``name``."""

    def __init__(
        self,
        address: tuple[str, int],
        metrics: Callable[[], str],
        ready: Mapping[str, Check],
        name: str = "worker",
    ) -> None:
        self._address, self._name = address, name
        self._metrics = metrics
        self._ready = ready
        self._stopping = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: it cannot: another process would answer for this one. Says which setting it is.
        """
        host, port = self._address
        try:
            self._server = ThreadingHTTPServer(self._address, _handler(self.answer))
        except OSError as error:
            raise OSError(
                f"TURNMILL_METRICS_PORT={port}: nobody can listen at {host}:{port} "
                f"({error.strerror}); each worker and server of a machine needs a free port of its "
                "own, 1 to 65535, or 0 for none"
            ) from None
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, name="turnmill-health", daemon=True
        ).start()

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
                return 200, f"{self._name} ok\n"
            case "/readyz":
                found = {self._name: "stopping" if self._stopping.is_set() else "ok"}
                found |= {name: _found(check) for name, check in self._ready.items()}
                is_ready = set(found.values()) == {"ok"}
                told = "".join(f"{name} {each}\n" for name, each in found.items())
                return (200 if is_ready else 503), told
        return 404, "/metrics, /healthz, /readyz\n"


def _found(check: Check) -> str:
    try:
        check()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not ready
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


def numbers_of(data: Any) -> Numbers:
    """What the SDK collected, as plain numbers."""
    found: Numbers = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    labels = sorted(
                        (k.replace(".", "_"), str(v)) for k, v in point.attributes.items()
                    )
                    counts = getattr(point, "bucket_counts", None)
                    value = [point.value] if counts is None else [point.count, point.sum, *counts]
                    found[metric.name, tuple(labels)] = list(value)
    return found


def added(parts: Iterable[Numbers]) -> Numbers:
    """The sums."""
    total: Numbers = {}
    for part in parts:
        for key, values in part.items():
            before = total.get(key, [0.0] * len(values))
            total[key] = [a + b for a, b in zip(before, values, strict=True)]
    return total


def text_of(numbers: Numbers, instruments: Iterable[Instrument]) -> str:
    """The numbers in Prometheus' text format."""
    lines: list[str] = []
    for each in instruments:
        found = [
            (labels, values) for (name, labels), values in numbers.items() if name == each.name
        ]
        if found:
            lines += [
                f"# HELP {each.prometheus} {each.help}",
                f"# TYPE {each.prometheus} {each.kind}",
            ]
        for labels, values in sorted(found):
            lines += _lines(each, dict(labels), values)
    return "\n".join([*lines, ""])


def _lines(each: Instrument, labels: Mapping[str, str], values: Sequence[float]) -> list[str]:
    name = each.prometheus
    if each.kind != "histogram":
        return [_line(name, labels, values[0])]
    count, total, *buckets = values
    lines, below = [], 0.0
    for bound, inside in zip([*each.buckets, math.inf], buckets, strict=True):
        below += inside
        le = "+Inf" if bound == math.inf else f"{bound:g}"
        lines.append(_line(f"{name}_bucket", {**labels, "le": le}, below))
    return [*lines, _line(f"{name}_sum", labels, total), _line(f"{name}_count", labels, count)]


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    escaped = {
        k: v.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        for k, v in labels.items()
    }
    told = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    return f"{name}{{{told}}} {value:.15g}" if told else f"{name} {value:.15g}"
