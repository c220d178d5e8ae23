"""OpenTelemetry in a worker: providers for each process, and the numbers of all.

A prefork worker's children count, and its parent is scraped. Each child sends what it has counted
over a socket that both inherited; the parent adds up, and keeps what children that are gone had
counted. A child that is killed loses its last two seconds. No provider is made before a fork: its
threads would not be in the child, and its numbers would be there twice.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import uuid
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from turnmill.metrics_port import Numbers, added, numbers_of
from turnmill.telemetry import SCOPE, Instrument, is_set_up
from turnmill_worker import telemetry
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.store.fleet import Value

log = structlog.get_logger()

EVERY_S: Final = 2.0
MOST_BYTES: Final = 1 << 20
MOST_APART: Final = 100
"""Children whose numbers are kept apart; those of more are added up where they are gone."""


class Metrics:
    """A worker's telemetry, in each of its processes.

    Args:
        names: the namespaces that may be labels.
        local: whether the worker is scraped, so that its processes have to be added up.
        gauges: of all workers; told by the main process alone.
    """

    def __init__(
        self, names: Sequence[str], *, local: bool, gauges: Callable[[], list[Value]]
    ) -> None:
        self._names = names
        self._gauges = gauges
        endpoints = ("ENDPOINT", "METRICS_ENDPOINT", "TRACES_ENDPOINT")
        wanted = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{each}") for each in endpoints)
        self._otlp = wanted and not is_set_up()  # by opentelemetry-instrument
        self.is_on = local or self._otlp
        self._main, self._begun = os.getpid(), 0
        self._received: dict[str, Numbers] = {}
        if self.is_on:
            _check_installed()
            self._parent, self._child = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def begin(self, *, traced: bool = True) -> None:
        """Tell what this process does from now on; again in each that was forked."""
        if not self.is_on or self._begun == os.getpid():
            return
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415

        self._begun, self._ended, self._last = os.getpid(), threading.Event(), b""
        # A later process may get the same number.
        self._name, resource = f"{os.getpid()}-{uuid.uuid4()}", _resource()
        self._reader = InMemoryMetricReader()
        self._exporter = _exporter() if self._otlp else None
        readers = [self._reader, *([self._exporter] if self._exporter else [])]
        self._meters = MeterProvider(readers, resource)
        self._tracers = _tracers(resource) if self._otlp and traced else None
        meter = self._meters.get_meter(SCOPE)
        telemetry.use(meter, self._tracers and self._tracers.get_tracer(SCOPE), self._names)
        if self._begun == self._main:
            for each in telemetry.GAUGES:
                observed = [_observed(each, self._gauges)]
                meter.create_observable_gauge(each.name, observed, each.unit, each.help)
            threading.Thread(target=self._receive, name="turnmill-metrics", daemon=True).start()
        threading.Thread(target=self._send, name="turnmill-telemetry", daemon=True).start()

    def end(self) -> None:
        """Tell what was not told yet: the process ends."""
        if self._begun != os.getpid():
            return
        self._ended.set()
        self._hand_over()
        self._meters.shutdown()
        if self._tracers:
            self._tracers.shutdown()

    def numbers(self) -> Numbers:
        """What all processes of the worker have counted."""
        return added([numbers_of(self._reader.get_metrics_data()), *self._received.copy().values()])

    def _send(self) -> None:
        otlp_s = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or 60_000) / 1000
        waited_s = 0.0
        while not self._ended.wait(EVERY_S):
            waited_s += EVERY_S
            self._hand_over()
            if self._exporter and waited_s >= otlp_s:
                waited_s = 0.0
                with suppress(Exception):  # the SDK has logged it
                    self._exporter.collect()

    def _hand_over(self) -> None:
        if self._begun == self._main:
            return
        found = numbers_of(self._reader.get_metrics_data())
        body = json.dumps([self._name, [[*key, each] for key, each in found.items()]]).encode()
        if body != self._last:
            self._last = body
            with suppress(OSError):  # the parent is gone, or too busy: the next message has all
                self._child.send(zlib.compress(body, 1), socket.MSG_DONTWAIT)

    def _receive(self) -> None:
        while True:
            with suppress(OSError, ValueError, zlib.error):
                name, told = json.loads(zlib.decompress(self._parent.recv(MOST_BYTES)))
                self._received[name] = {(n, tuple(map(tuple, ls))): v for n, ls, v in told}
            if len(self._received) > MOST_APART:
                gone = [name for name in self._received if not _is_alive(name)]
                self._received[""] = added([self._received.pop(name) for name in gone])


def _is_alive(name: str) -> bool:
    try:
        os.kill(int(name.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):  # none has the name of those added up
        return False
    return True


def _check_installed() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: PLC0415
        import opentelemetry.sdk.metrics  # noqa: F401, PLC0415 - before forks, to be shared
    except ImportError:
        raise InvalidSettings(
            "TURNMILL_METRICS_PORT and OTEL_EXPORTER_OTLP_ENDPOINT need the extra telemetry: "
            "pip install '.[telemetry]' in turnmill's folder"
        ) from None


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

    given = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "turnmill-worker"}
    return Resource.create({**given, "service.instance.id": uuid.uuid4().hex})


def _exporter() -> Any:
    from opentelemetry.exporter.otlp.proto.http import metric_exporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    # Without a thread of its own, which would come back in forked processes.
    return PeriodicExportingMetricReader(metric_exporter.OTLPMetricExporter(), math.inf)


def _tracers(resource: Any) -> Any:
    from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    made = TracerProvider(resource=resource)
    made.add_span_processor(BatchSpanProcessor(trace_exporter.OTLPSpanExporter()))
    return made


def _observed(instrument: Instrument, gauges: Callable[[], list[Value]]) -> Callable[[Any], Any]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    def observe(_options: Any) -> list[Any]:
        found = [each for each in gauges() if each.gauge == instrument.name]
        return [Observation(each.value, each.labels) for each in found]

    return observe
