"""What a server tells Prometheus, at a port of its own: its requests, and its clients' calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from turnmill import telemetry
from turnmill.connection.store_client import store_client
from turnmill.metrics_port import HealthServer, numbers_of, text_of


@contextmanager
def scraped(address: tuple[str, int], redis: str, timeout_s: float) -> Iterator[None]:
    """Answer Prometheus there while a ``with`` block runs; the numbers of all tenants are one."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    telemetry.use(meters.get_meter(telemetry.SCOPE))

    def told() -> str:
        return text_of(numbers_of(reader.get_metrics_data()), telemetry.INSTRUMENTS)

    with closing(store_client(redis, timeout_s)) as client:
        port = HealthServer(address, told, {"redis": client.ping}, "server")
        port.start()
        try:
            yield
        finally:
            port.stop()
            meters.shutdown()
