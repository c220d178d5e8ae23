"""What an agent's calls tell OpenTelemetry, and how a worker's numbers become Prometheus' text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnmill import telemetry
from turnmill.metrics_port import added, numbers_of, text_of
from turnmill_worker import telemetry as worker

WORDS = "the user's secret words"


@pytest.fixture
def teller(monkeypatch: pytest.MonkeyPatch) -> tuple[InMemoryMetricReader, InMemorySpanExporter]:
    reader, spans, provider = InMemoryMetricReader(), InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    made = telemetry.Teller(telemetry.INSTRUMENTS)
    made.use(MeterProvider([reader]).get_meter("t"), provider.get_tracer("t"))
    monkeypatch.setattr(telemetry, "_agent", made)
    return reader, spans


def test_a_failed_call_is_told_by_its_kind_and_never_by_its_words(
    teller: tuple[InMemoryMetricReader, InMemorySpanExporter],
) -> None:
    reader, spans = teller
    with pytest.raises(ValueError, match=WORDS), telemetry.call("push", "ns", "s", 1):
        raise ValueError(WORDS)
    with telemetry.call("read", "ns", "s") as told:
        told.read(2, projected=True)

    text = text_of(numbers_of(reader.get_metrics_data()), telemetry.INSTRUMENTS)
    name = "turnmill_client_duration_seconds_count"
    assert f'{name}{{error_type="ValueError",operation="push"}} 1' in text
    assert f'{name}{{operation="read",projected="true"}} 1' in text
    failed, read = spans.get_finished_spans()
    assert WORDS not in failed.to_json()
    assert (failed.attributes or {})["error.type"] == "ValueError"
    assert (read.attributes or {})["turnmill.projected"] is True


def test_where_nobody_has_set_it_up_a_call_tells_nothing() -> None:
    code = "from turnmill import telemetry as t; import opentelemetry.trace, opentelemetry.metrics;"
    code += "assert type(t.call('push', 'ns', 's', 1)) is t.Untold; assert not t.traceparent()"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("header", [None, 7, {"s": "no trace"}, {"s": 7}, ["s"], {7: "x"}])
def test_what_is_no_trace_is_left_out_of_a_message(header: object) -> None:
    assert telemetry.traces_in(header) == {}


def test_processes_are_added_up_and_labels_escaped() -> None:
    key = (worker.COMPACTIONS.name, (("strategy", 'a"b\\c\nd'),))

    text = text_of(added([{key: [1]}, {key: [2]}]), worker.INSTRUMENTS)

    assert text.splitlines()[-1] == r'turnmill_compactions_total{strategy="a\"b\\c\nd"} 3'
