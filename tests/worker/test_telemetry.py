"""What a worker tells Prometheus and OpenTelemetry: each process's numbers, and one trace."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
import redis
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.processes import WorkerProcess, emptied, wait_until
from tests.worker.harness import (
    KEY,
    ROLLING,
    NewServer,
    NewWorker,
    asks,
    chat,
    grown,
    keys_of,
    push_all,
)
from turnmill import ContextClient, Policy, telemetry
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.testing import FakeEndpoint

pytestmark = pytest.mark.worker


class Scraped:
    """A worker's port, as Prometheus sees it."""

    def __init__(self, port: int) -> None:
        self.env = {"TURNMILL_METRICS_PORT": str(port), "TURNMILL_METRICS_NAMESPACES": "told"}
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        try:
            with urlopen(self._url + path, timeout=20) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def value(self, name: str, *labels: str) -> float:
        """The sum over all that have these labels; 0 for none."""
        lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(float(value) for told, value in lines if all(each in told for each in labels))


@pytest.fixture
def scraped() -> Scraped:
    return Scraped(free_port())


COUNT = "turnmill_job_duration_seconds_count"


def test_what_forked_processes_counted_is_added_up_and_outlives_them(
    new_worker: NewWorker, scraped: Scraped, store: EmbeddedRedis
) -> None:
    worker = new_worker("prefork", pool="prefork", concurrency=2, env=scraped.env)
    children = psutil.Process(worker.pid).children()
    with ContextClient(store.url, namespace="told") as client:
        grown(client, "a", 90)
        grown(client, "b", 90)
        tokens = "turnmill_compaction_tokens_total"
        wait_until(lambda: scraped.value("turnmill_compactions_total", 'namespace="told"') >= 2)
        wait_until(lambda: scraped.value(COUNT, 'outcome="estimated"') >= 2, what="handed over")
        before, after = (scraped.value(tokens, f'when="{when}"') for when in ("before", "after"))
        for child in children:
            child.send_signal(signal.SIGKILL)
        grown(client, "c", 90)
        wait_until(lambda: scraped.value("turnmill_compactions_total") >= 3)
        wait_until(lambda: scraped.value(COUNT, 'outcome="estimated"') >= 3, what="handed over")
        wait_until(lambda: scraped.value(tokens, 'when="before"') > before, what="added up")
        told = "turnmill_compaction_quality_count"
        wait_until(lambda: scraped.value(told, 'summarizer="extractive"') >= 3, what="scored")

    assert 0 < after < before


def test_a_namespace_is_no_label_unless_it_may_be(
    new_worker: NewWorker, scraped: Scraped, store: EmbeddedRedis
) -> None:
    new_worker("solo", env=scraped.env)
    with ContextClient(store.url, namespace="one-of-thousands") as client:
        grown(client, "a", 90)

    wait_until(lambda: scraped.value("turnmill_compactions_total") >= 1)
    assert "one-of-thousands" not in scraped.get("/metrics")[1]


def test_statements_that_a_check_refused_are_counted_by_it(
    new_worker: NewWorker, scraped: Scraped, store: EmbeddedRedis
) -> None:
    asking = Policy(
        max_tokens=2_000, summarizer="openai", strategies=("rolling",), quality_threshold=0.0
    )
    with FakeEndpoint(faults={"wrong-language": 1.0}) as model:
        new_worker("refusing", env={**scraped.env, **asks(model)})
        with ContextClient(store.url, namespace="told") as client:
            grown(client, "refused", 90, policy=asking)
        items = "turnmill_summaries_items_total"
        wait_until(lambda: scraped.value(items) > 0, what="items")

    refused = 'why="UnusableSummary: none-holds"'
    assert scraped.value(items, 'what="kept"') == 0
    assert scraped.value("turnmill_summaries_failed_total", refused) > 0


def asked(scraped: Scraped) -> tuple[int, dict[str, str]]:
    """What the command says."""
    command = [sys.executable, "-m", "turnmill_cli", "ready", "--json"]
    env = {**os.environ, **scraped.env}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return done.returncode, json.loads(done.stdout)


def test_a_worker_is_ready_while_redis_answers_and_until_it_stops(
    new_server: NewServer, scraped: Scraped, tmp_path: Path
) -> None:
    own = new_server()
    with WorkerProcess(own.url, tmp_path, env=scraped.env) as worker:
        wait_until(lambda: scraped.get("/readyz") == (200, "worker ok\nredis ok\nbroker ok\n"))
        assert asked(scraped) == (0, {"worker": "ok", "redis": "ok", "broker": "ok"})
        own.stop()

        assert scraped.get("/readyz")[0] == 503
        assert asked(scraped)[0] == 1
        assert scraped.get("/healthz") == (200, "worker ok\n")
        assert scraped.value("turnmill_redis_up") == 0
        worker.kill()


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_worker_whose_port_another_has_does_not_start_and_says_which_setting_it_is(
    new_worker: NewWorker, scraped: Scraped, pool: str
) -> None:
    new_worker("first", env=scraped.env)
    port = scraped.env["TURNMILL_METRICS_PORT"]

    with pytest.raises(AssertionError, match=f"TURNMILL_METRICS_PORT={port}: nobody can listen"):
        new_worker("second", env=scraped.env, pool=pool)

    assert scraped.get("/readyz")[0] == 200


def test_sessions_over_their_limits_are_counted(
    new_worker: NewWorker, scraped: Scraped, store: EmbeddedRedis
) -> None:
    # No worker of the others: what is counted stays to be compacted.
    new_worker("counting", queues="estimate", env=scraped.env)
    with ContextClient(store.url, namespace="told") as client:
        for session in ("over-1", "over-2"):
            client.open(session, ROLLING)
            push_all(client, session, chat(90))
        state = "turnmill_sessions"
        wait_until(lambda: scraped.value(state, 'state="over_hard"') == 2, what="over_hard")

        def all_due() -> bool:
            waiting = (scraped.value(state, f'state="{each}"') for each in ("due", "later"))
            return (
                sum(waiting) == 2 and scraped.value("turnmill_queue_depth", 'queue="compact"') > 0
            )

        wait_until(all_due, what="both due")
        wait_until(lambda: scraped.value("turnmill_due_age_seconds") > 1, what="due for long")


class Collector:
    """An OTLP endpoint that keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its URL."""
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                bodies.append((self.path, self.rfile.read(length)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()

    def spans(self) -> list[ProtoSpan]:
        """All spans."""
        told = [
            ExportTraceServiceRequest.FromString(body)
            for path, body in self.bodies
            if path == "/v1/traces"
        ]
        return [
            span
            for each in told
            for resource in each.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> set[str]:
        """The names of all instruments."""
        told = [
            ExportMetricsServiceRequest.FromString(body)
            for path, body in self.bodies
            if path == "/v1/metrics"
        ]
        return {
            metric.name
            for each in told
            for resource in each.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def agent_spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What an agent's process tells, with OpenTelemetry set up as applications do."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    teller = telemetry.Teller(telemetry.INSTRUMENTS)
    teller.use(MeterProvider().get_meter("test"), provider.get_tracer("test"))
    monkeypatch.setattr(telemetry, "_agent", teller)
    return exporter


TRACED = ROLLING.model_copy(update={"summarizer": "openai", "model": "gpt-4o-mini"})


def compacted(
    client: ContextClient, session: str, server: redis.Redis, worker: WorkerProcess
) -> None:
    """Push until it is compacted, and read it; nothing but pushes hints it."""
    client.open(session, TRACED)  # hints, too, and its job might take the first turns
    wait_until(lambda: '"estimated"' in worker.output(), what="nothing counted")
    for message in chat(90, topic="moonflower"):
        client.push(session, message)
    records = keys_of(client, session).compactions
    wait_until(lambda: server.xlen(records), what="a compaction")
    client.read(session)


STAGES = ["turnmill.commit", "turnmill.summarize", "turnmill.compact", "turnmill.estimate"]


def path_to_commit(collector: Collector) -> list[ProtoSpan]:
    """The first commit's span and those it is in, the innermost first."""
    by_id = {span.span_id: span for span in collector.spans()}
    found = [span for span in by_id.values() if span.name == "turnmill.commit"][:1]
    while found and found[-1].parent_span_id in by_id:
        found.append(by_id[found[-1].parent_span_id])
    return found


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_push_and_all_it_leads_to_is_one_trace_without_a_word(
    pool: str,
    new_worker: NewWorker,
    store: EmbeddedRedis,
    server: redis.Redis,
    agent_spans: InMemorySpanExporter,
) -> None:
    emptied(store.url)  # of hints that the one before did not wait for
    collector = Collector()
    with collector.running() as url, FakeEndpoint() as model:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "TURNMILL_LOG_JSON": "1",
            "TURNMILL_MODEL_URL": model.base_url,
            "TURNMILL_MODEL_KEY": KEY,
            "TURNMILL_SWEEP_INTERVAL_S": "60",  # its hints have no trace
        }
        worker = new_worker(f"traced-{pool}", pool=pool, concurrency=2, env=env)
        with ContextClient(store.url, namespace="traced") as client:
            compacted(client, f"zebra-{pool}", server, worker)
        wait_until(
            lambda: [each.name for each in path_to_commit(collector)] == STAGES, what="spans"
        )
        wait_until(lambda: "turnmill.model.tokens" in collector.metrics(), what="metrics")

    path = path_to_commit(collector)
    assert any(span.name == "chat gpt-4o-mini" for span in collector.spans())
    told = {span.context.span_id: span for span in agent_spans.get_finished_spans()}
    assert told[int.from_bytes(path[-1].parent_span_id)].name == "turnmill.push"
    [read] = [span for span in told.values() if span.name == "turnmill.read"]
    assert (read.attributes or {})["gen_ai.conversation.compacted"] is True
    assert not any(b"moonflower" in body or KEY.encode() in body for _, body in collector.bodies)
    assert f'"trace_id": "{path[0].trace_id.hex()}"' in worker.output()


def test_without_the_extra_a_worker_says_what_to_install(
    scraped: Scraped, store: EmbeddedRedis, tmp_path: Path
) -> None:
    hidden = tmp_path / "opentelemetry"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    worker = WorkerProcess(store.url, tmp_path, env={**scraped.env, "PYTHONPATH": path})
    with pytest.raises(AssertionError), worker:
        pass

    assert "need the extra telemetry" in worker.output()
